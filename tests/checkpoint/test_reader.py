"""Lazy reading: copies, mapped views, threads; and every kind of broken file, before any compute."""

import json
import struct
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from deepinfer.checkpoint.reader import CheckpointReader
from deepinfer.checkpoint.shard_header import read_shard_header
from deepinfer.checkpoint.shard_index import INDEX_NAME, SINGLE_NAME
from deepinfer.checkpoint.shard_writer import write_shard
from deepinfer.errors import CheckpointError


def _bytes(tensor):
    return tensor.reshape(-1).view(torch.uint8)


def test_copies_views_and_threads_agree(pristine):
    with CheckpointReader(pristine) as reader:
        names = list(reader.entries)
        with ThreadPoolExecutor(4) as pool:
            loaded = dict(zip(names, pool.map(reader.tensor, names), strict=True))
        for name in names:
            entry, view = reader.entries[name], reader.mapped(name)
            assert view.shape == entry.shape == loaded[name].shape
            assert view.dtype == loaded[name].dtype
            assert torch.equal(_bytes(view), _bytes(loaded[name])), name
        assert {loaded[name].dtype for name in names} == {
            torch.bfloat16,
            torch.float32,
            torch.float8_e4m3fn,
            torch.uint8,
        }


def test_copies_are_private_and_the_file_is_safe(pristine):
    with CheckpointReader(pristine) as reader:
        first = reader.tensor("norm.weight")
        first.fill_(7)
        reader.mapped("norm.weight")
        assert not torch.equal(reader.tensor("norm.weight"), first)


def test_views_outlive_the_reader(pristine):
    reader = CheckpointReader(pristine)
    view, copy = reader.mapped("embed.weight"), reader.tensor("embed.weight")
    reader.close()
    reader.close()
    assert torch.equal(view, copy)
    with pytest.raises(CheckpointError, match="closed"):
        reader.tensor("embed.weight")


def test_concurrent_opening(pristine):
    with CheckpointReader(pristine) as reader, ThreadPoolExecutor(8) as pool:
        names = list(reader.entries)[:64]
        for name, tensor in zip(names, pool.map(reader.mapped, names), strict=True):
            assert torch.equal(_bytes(tensor), _bytes(reader.tensor(name)))


def test_unknown_name(pristine):
    with CheckpointReader(pristine) as reader, pytest.raises(CheckpointError, match="no tensor 'nope'"):
        reader.tensor("nope")


def test_file_cut_after_opening(damaged, weight_map):
    reader = CheckpointReader(damaged)
    shard = damaged / weight_map["norm.weight"]
    with shard.open("r+b") as file:
        file.truncate(reader.entries["norm.weight"].offset)
    with pytest.raises(CheckpointError, match=f"{shard.name}.*truncated.*norm.weight"):
        reader.tensor("norm.weight")


def test_single_file_without_index(damaged, tmp_path):
    target = tmp_path / "single"
    target.mkdir()
    write_shard(target / SINGLE_NAME, {"norm.weight": ("BF16", torch.ones(4, dtype=torch.bfloat16))})
    with CheckpointReader(target) as reader:
        assert reader.tensor("norm.weight").tolist() == [1.0] * 4


def test_empty_and_scalar_tensors(tmp_path):
    write_shard(tmp_path / SINGLE_NAME, {"a": ("F32", torch.empty(0, 3)), "b": ("F32", torch.tensor(2.0))})
    with CheckpointReader(tmp_path) as reader:
        assert reader.tensor("a").shape == reader.mapped("a").shape == (0, 3)
        assert reader.tensor("b").item() == reader.mapped("b").item() == 2.0


def test_unaligned_data_is_read(tmp_path):
    tensor = torch.arange(5, dtype=torch.float32)
    write_shard(tmp_path / SINGLE_NAME, {"a": ("U8", torch.ones(3, dtype=torch.uint8)), "b": ("F32", tensor)})
    with CheckpointReader(tmp_path) as reader:
        assert torch.equal(reader.mapped("b"), tensor)


def test_no_checkpoint(tmp_path):
    with pytest.raises(CheckpointError, match="neither"):
        CheckpointReader(tmp_path)
    with pytest.raises(CheckpointError, match="no such directory"):
        CheckpointReader(tmp_path / "absent")


def test_case_31_missing_shard(damaged, weight_map):
    shard = sorted(set(weight_map.values()))[1]
    (damaged / shard).unlink()
    with pytest.raises(CheckpointError, match=shard):
        CheckpointReader(damaged)


@pytest.mark.parametrize("keep", [0, 5, 8, 100, -1])
def test_truncated_shard(damaged, weight_map, keep):
    shard = damaged / weight_map["norm.weight"]
    content = shard.read_bytes()
    shard.write_bytes(content[:keep])
    with pytest.raises(CheckpointError, match=f"{shard.name}.*truncated"):
        CheckpointReader(damaged)


@pytest.mark.parametrize(
    "content",
    [
        b"not a tensor file at all, just text",
        struct.pack("<Q", 4) + b"\xff\xfe\xfd\xfc",
        struct.pack("<Q", 4) + b"[1] ",
        struct.pack("<Q", 9) + b'{"a": 1} ',
        struct.pack("<Q", 2**63) + b"{}",
    ],
)
def test_junk_shard(damaged, weight_map, content):
    shard = damaged / weight_map["norm.weight"]
    shard.write_bytes(content)
    with pytest.raises(CheckpointError, match=shard.name):
        CheckpointReader(damaged)


def _write(path, header, data):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


@pytest.mark.parametrize(
    ("header", "size", "message"),
    [
        ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, 4, "'a'.* needs 8 bytes"),
        ({"a": {"dtype": "Q3", "shape": [2], "data_offsets": [0, 8]}}, 8, "'a'.*unknown type 'Q3'"),
        ({"a": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}}, 8, "'a'.*malformed"),
        ({"a": {"dtype": "F32", "shape": [2]}}, 8, "'a'.*malformed"),
        ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, 12, "4 bytes behind"),
        ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}, 8, "'a' leaves a gap"),
        (
            {
                "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
                "b": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]},
            },
            8,
            "'b' overlaps",
        ),
        (
            b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}',
            2,
            "'a' is given twice",
        ),
    ],
)
def test_inconsistent_headers(tmp_path, header, size, message):
    _write(tmp_path / "x.safetensors", header, b"\0" * size)
    with pytest.raises(CheckpointError, match=message) as error:
        read_shard_header(tmp_path / "x.safetensors")
    assert "x.safetensors" in str(error.value)


def _edit_index(directory, edit):
    path = directory / INDEX_NAME
    index = json.loads(path.read_text(encoding="utf-8"))
    edit(index["weight_map"])
    path.write_text(json.dumps(index), encoding="utf-8")


def test_index_names_what_the_shard_lacks(damaged, weight_map):
    _edit_index(damaged, lambda names: names.update({"layers.0.ghost": weight_map["norm.weight"]}))
    with pytest.raises(CheckpointError, match=f"{weight_map['norm.weight']}.*lacks tensor 'layers.0.ghost'"):
        CheckpointReader(damaged)


def test_index_omits_what_the_shard_holds(damaged, weight_map):
    _edit_index(damaged, lambda names: names.pop("norm.weight"))
    with pytest.raises(CheckpointError, match=f"{weight_map['norm.weight']}.*'norm.weight'.*does not list"):
        CheckpointReader(damaged)


def test_index_names_the_wrong_shard(damaged, weight_map):
    other = next(shard for shard in weight_map.values() if shard != weight_map["norm.weight"])
    _edit_index(damaged, lambda names: names.update({"norm.weight": other}))
    with pytest.raises(CheckpointError, match=r"norm\.weight.*said to be in"):
        CheckpointReader(damaged)


def test_index_may_not_leave_the_directory(damaged):
    _edit_index(damaged, lambda names: names.update({"norm.weight": "../model.safetensors"}))
    with pytest.raises(CheckpointError, match="plain file name"):
        CheckpointReader(damaged)


@pytest.mark.parametrize("content", [b"\xff", b"{", b"[]", b"{}", b'{"weight_map": {"a": 3}}'])
def test_junk_index(damaged, content):
    (damaged / INDEX_NAME).write_bytes(content)
    with pytest.raises(CheckpointError, match=INDEX_NAME):
        CheckpointReader(damaged)


def test_case_31_tensor_in_two_shards(damaged, weight_map):
    shards = sorted(set(weight_map.values()))
    other = next(shard for shard in shards if shard != weight_map["norm.weight"])
    with CheckpointReader(damaged) as reader:
        stored = {
            name: (reader.entries[name].dtype, reader.tensor(name))
            for name, shard in weight_map.items()
            if shard == other
        }
        stored["norm.weight"] = ("BF16", reader.tensor("norm.weight") + 1)
    write_shard(damaged / other, stored)
    with pytest.raises(CheckpointError, match=r"'norm\.weight' is stored twice"):
        CheckpointReader(damaged)


def test_both_spellings_of_a_tensor(tmp_path):
    tensor = ("BF16", torch.ones(2, dtype=torch.bfloat16))
    write_shard(tmp_path / SINGLE_NAME, {"norm.weight": tensor, "model.norm.weight": tensor})
    with pytest.raises(CheckpointError, match=r"'norm\.weight' is stored twice, with and without 'model\.'"):
        CheckpointReader(tmp_path)
    _edit = {"weight_map": {"norm.weight": SINGLE_NAME, "model.norm.weight": SINGLE_NAME}}
    (tmp_path / INDEX_NAME).write_text(json.dumps(_edit), encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"norm\.weight.*with and without"):
        CheckpointReader(tmp_path)
