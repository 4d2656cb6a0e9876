"""NaN and infinity in stored tensors: refused at load, with tensor, shard and place; tables on disk are exempt."""

import numpy as np
import pytest
import torch

from deepinfer import LLM
from deepinfer.checkpoint import finite_source
from deepinfer.checkpoint.finite_source import FiniteSource
from deepinfer.checkpoint.reader import CheckpointReader
from deepinfer.errors import CheckpointError

NAN, INF = float("nan"), float("inf")
# Type -> element type and the bytes of every kind of value that is not finite.
WRONG = {
    "F32": (np.float32, [NAN, INF, -INF]),
    "BF16": (np.uint16, [0x7FC0, 0xFFC1, 0x7F80, 0xFF80, 0x7F81]),
    "F8_E4M3": (np.uint8, [0x7F, 0xFF]),
    "F8_E8M0": (np.uint8, [0xFF]),
}
FINE = {
    "F32": (np.float32, [3.4e38, -3.4e38, 0.0, 1e-45]),
    "BF16": (np.uint16, [0x7F7F, 0xFF7F, 0x0001]),
    "F8_E4M3": (np.uint8, [0x7E, 0xFE, 0x80]),
    "F8_E8M0": (np.uint8, [0xFE, 0x00]),
    "I8": (np.uint8, [0xFF, 0x7F, 0x00]),
}


def _put(directory, name, index, value, dtype):
    with CheckpointReader(directory) as reader:
        entry = reader.entries[name]
    with entry.shard.open("r+b") as file:
        file.seek(entry.offset + index * np.dtype(dtype).itemsize)
        file.write(np.asarray([value], dtype).tobytes())
    return entry


def _first(directory, dtype):
    with CheckpointReader(directory) as reader:
        return next(
            name for name, entry in reader.entries.items() if entry.dtype == dtype and "engram.embed" not in name
        )


@pytest.mark.parametrize(
    ("dtype", "value"), [(dtype, value) for dtype, (_, values) in WRONG.items() for value in values]
)
def test_every_kind_of_value_that_is_not_finite(damaged, dtype, value):
    name = _first(damaged, dtype)
    count = int(np.prod(CheckpointReader(damaged).entries[name].shape))
    for index in (count - 1, 0):
        entry = _put(damaged, name, index, value, WRONG[dtype][0])
        place = [int(number) for number in np.unravel_index(index, entry.shape)]
        with CheckpointReader(damaged) as reader, pytest.raises(CheckpointError) as error:
            FiniteSource(reader).tensor(name)
        assert all(part in str(error.value) for part in (name, entry.shard.name, f"not finite at {place}"))


def test_the_largest_values_are_fine(damaged):
    for dtype, (element, values) in FINE.items():
        for value in values:
            name = _first(damaged, dtype)
            _put(damaged, name, 0, value, element)
            with CheckpointReader(damaged) as reader:
                assert torch.equal(
                    FiniteSource(reader).tensor(name).view(torch.uint8), reader.tensor(name).view(torch.uint8)
                )


def test_places_in_later_chunks(damaged, monkeypatch):
    monkeypatch.setattr(finite_source, "_CHUNK", 7)
    _put(damaged, "layers.0.ffn.gate.weight", 3 * 64 + 5, 0x7FC0, np.uint16)
    with CheckpointReader(damaged) as reader, pytest.raises(CheckpointError, match=r"not finite at \[3, 5\]"):
        FiniteSource(reader).tensor("layers.0.ffn.gate.weight")


def test_scales_stored_as_u8(damaged):
    _put(damaged, "layers.0.attn.wq_a.scale", 0, 0xFF, np.uint8)
    for file in damaged.glob("*.safetensors"):
        file.write_bytes(file.read_bytes().replace(b'"F8_E8M0"', b'"U8"     '))
    with CheckpointReader(damaged) as reader:
        assert reader.entries["layers.0.attn.wq_a.scale"].dtype == "U8"
        with pytest.raises(CheckpointError, match="wq_a.scale"):
            FiniteSource(reader).tensor("layers.0.attn.wq_a.scale")


@pytest.mark.parametrize(
    ("name", "dtype", "value"),
    [
        ("norm.weight", np.uint16, 0x7FC0),
        ("layers.0.ffn.gate.bias", np.float32, INF),
        ("layers.2.attn.indexer.weights_proj.weight", np.uint16, 0xFF80),
        ("layers.1.hc_attn_base", np.float32, NAN),
        ("layers.3.ffn.experts.7.w2.scale", np.uint8, 0xFF),
        ("layers.1.engram.wkv.weight", np.uint8, 0x7F),
        ("mtp.2.confidence_head.proj.weight", np.uint16, 0x7F80),
    ],
)
def test_an_engine_does_not_start_on_them(damaged, name, dtype, value):
    entry = _put(damaged, name, 1, value, dtype)
    with pytest.raises(CheckpointError, match=f"{entry.shard.name}: tensor '{name}' .* not finite"):
        LLM(damaged, max_model_len=64)


def test_tables_on_disk_and_unread_tensors_are_exempt(damaged):
    _put(damaged, "layers.1.engram.embed.weight", 0, 0x7F, np.uint8)
    _put(damaged, "mtp.0.attn_norm.weight", 0, 0x7FC0, np.uint16)
    LLM(damaged, max_model_len=64, speculative="off").close()
