"""The name table against files: whatever is missing, unknown, wrongly typed or shaped is named with its shard."""

import json

import numpy as np
import pytest
import torch

from deepinfer.checkpoint.dummy_source import DummySource
from deepinfer.checkpoint.reader import CheckpointReader
from deepinfer.checkpoint.shard_index import INDEX_NAME
from deepinfer.checkpoint.shard_writer import write_shard
from deepinfer.checkpoint.tracked_source import TrackedSource
from deepinfer.checkpoint.validate import validate_checkpoint
from deepinfer.checkpoint.validate_vocabulary import validate_vocabulary
from deepinfer.checkpoint.writer import write_random_checkpoint
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.errors import CheckpointError
from deepinfer.models.deepseek_v41.weights import tensor_table
from tests.support.tiny_config import tiny_config

VISION = {
    "model_type": "deepseek_v41_vision",
    "num_hidden_layers": 1,
    "hidden_size": 32,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "patch_size": 4,
    "downsample_ratio": 3,
}


def _edit_shard(directory, name, change):
    """Rewrites the shard of `name` (and the index) after ``change(tensors)``; returns the shard's file name."""
    index = json.loads((directory / INDEX_NAME).read_text(encoding="utf-8"))
    shard = index["weight_map"][name]
    with CheckpointReader(directory) as reader:
        tensors = {
            key: (reader.entries[key].dtype, reader.tensor(key))
            for key, file in index["weight_map"].items()
            if file == shard
        }
    change(tensors)
    write_shard(directory / shard, tensors)
    rest = {key: file for key, file in index["weight_map"].items() if file != shard}
    index["weight_map"] = rest | dict.fromkeys(tensors, shard)
    (directory / INDEX_NAME).write_text(json.dumps(index), encoding="utf-8")
    return shard


def _validate(directory):
    with CheckpointReader(directory) as reader:
        validate_checkpoint(reader, DeepSeekV41Config.from_path(directory))


def test_intact_checkpoint(pristine):
    _validate(pristine)


@pytest.mark.parametrize(
    "name", ["norm.weight", "layers.2.ffn.experts.3.w2.scale", "mtp.1.attn.wkv.weight", "head.weight"]
)
def test_case_31_dropped_from_file_and_index(damaged, name):
    _edit_shard(damaged, name, lambda tensors: tensors.pop(name))
    with pytest.raises(CheckpointError, match=f"'{name}' is missing: expected"):
        _validate(damaged)


def test_case_31_renamed_expert_scale(damaged):
    name = "layers.4.ffn.experts.0.w1.scale"

    def rename(tensors):
        tensors[name + "_inv"] = tensors.pop(name)

    shard = _edit_shard(damaged, name, rename)
    with pytest.raises(CheckpointError) as error:
        _validate(damaged)
    assert f"'{name}' is missing" in str(error.value)
    assert f"'{name}_inv' in {shard} is unknown" in str(error.value)


@pytest.mark.parametrize(
    "name", ["layers.0.attn.ape", "layers.8.norm.weight", "vision.norm.weight", "mtp.3.norm.weight"]
)
def test_case_31_unknown_tensor(damaged, name):
    extra = ("BF16", torch.ones(2, dtype=torch.bfloat16))
    shard = _edit_shard(damaged, "norm.weight", lambda tensors: tensors.update({name: extra}))
    with pytest.raises(CheckpointError, match=f"'{name}' in {shard} is unknown"):
        _validate(damaged)


@pytest.mark.parametrize("name", ["mtp.0.embed.weight", "mtp.2.head.weight"])
def test_draft_copies_of_embedding_and_head_are_ignored(damaged, name):
    extra = ("BF16", torch.ones(2, dtype=torch.bfloat16))
    _edit_shard(damaged, "norm.weight", lambda tensors: tensors.update({name: extra}))
    _validate(damaged)


def test_case_31_wrong_shape(damaged):
    name = "layers.1.attn.wq_a.weight"
    shard = _edit_shard(damaged, name, lambda t: t.update({name: ("F8_E4M3", t[name][1][:-1])}))
    with pytest.raises(
        CheckpointError, match=rf"'{name}' in {shard}: expected F8_E4M3 \[32, 64\], found F8_E4M3 \[31, 64\]"
    ):
        _validate(damaged)


def test_wrong_type(damaged):
    name = "layers.1.attn.attn_sink"
    _edit_shard(damaged, name, lambda t: t.update({name: ("BF16", t[name][1].bfloat16())}))
    with pytest.raises(CheckpointError, match=rf"'{name}'.*expected F32 \[4\], found BF16 \[4\]"):
        _validate(damaged)


@pytest.mark.parametrize(
    "name", ["layers.1.attn.wkv.scale", "layers.1.ffn.experts.1.w3.scale", "layers.1.engram.embed.scale"]
)
def test_case_32_float_scale_is_refused_by_name(damaged, name):
    _edit_shard(damaged, name, lambda t: t.update({name: ("F32", t[name][1].float())}))
    with pytest.raises(CheckpointError, match=f"'{name}'.*F8_E8M0 or U8.*found F32.*float scales are refused"):
        _validate(damaged)


def test_case_32_scales_as_u8_are_the_same_bytes(tmp_path, pristine):
    write_random_checkpoint(tiny_config(), tmp_path, seed=5, scale_dtype="U8")
    _validate(tmp_path)
    with CheckpointReader(tmp_path) as plain, CheckpointReader(pristine) as published:
        for name in plain.entries:
            if name.endswith(".scale"):
                assert plain.entries[name].dtype == "U8" and published.entries[name].dtype == "F8_E8M0"
                assert torch.equal(plain.tensor(name), published.tensor(name))
                assert plain.tensor(name).dtype == torch.uint8


def test_optional_prefix(tmp_path, pristine):
    write_random_checkpoint(tiny_config(), tmp_path, seed=5, prefix="model.")
    _validate(tmp_path)
    with CheckpointReader(tmp_path) as prefixed, CheckpointReader(pristine) as bare:
        assert sorted(prefixed.entries) == sorted(bare.entries)


def test_many_problems_are_counted(damaged):
    _edit_shard(
        damaged, "norm.weight", lambda tensors: tensors.clear() or tensors.update(x=("U8", torch.zeros(1).byte()))
    )
    with pytest.raises(CheckpointError, match=r"and \d+ more"):
        _validate(damaged)


def test_image_tensors_are_checked(tmp_path):
    config = tiny_config() | {"vision_config": VISION}
    write_random_checkpoint(config, tmp_path)
    _validate(tmp_path)
    name = "vision.blocks.0.attn.wqkv.bias"
    _edit_shard(tmp_path, name, lambda t: t.update({name: ("BF16", t[name][1][:-1])}))
    with pytest.raises(CheckpointError, match=name):
        _validate(tmp_path)


@pytest.mark.parametrize("inner", [None, False, True])
def test_case_34_head_and_tie_flag(tmp_path, inner):
    config = tiny_config(tie_word_embeddings=inner)
    config["tie_word_embeddings"] = True  # the outer flag counts only where the inner one is silent
    write_random_checkpoint(config, tmp_path, seed=1)
    tied = inner is not False
    with CheckpointReader(tmp_path) as reader:
        assert ("head.weight" in reader.entries) is not tied
        embedding = reader.tensor("embed.weight")
    _validate(tmp_path)
    if not tied:
        _edit_shard(tmp_path, "head.weight", lambda tensors: tensors.pop("head.weight"))
        with pytest.raises(CheckpointError, match=r"'head\.weight' is missing"):
            _validate(tmp_path)
        return
    _edit_shard(tmp_path, "norm.weight", lambda t: t.update({"head.weight": ("BF16", embedding)}))
    _validate(tmp_path)
    _edit_shard(tmp_path, "norm.weight", lambda t: t.update({"head.weight": ("BF16", embedding + 1)}))
    with pytest.raises(CheckpointError, match=r"'head\.weight' differs from 'embed\.weight'"):
        _validate(tmp_path)
    _edit_shard(tmp_path, "norm.weight", lambda t: t.update({"head.weight": ("BF16", embedding[1:])}))
    with pytest.raises(CheckpointError, match=r"'head\.weight'.*expected BF16 \[288, 64\]"):
        _validate(tmp_path)


def test_case_31_every_tensor_is_read_exactly_once(pristine):
    names = [spec.name for spec in tensor_table(DeepSeekV41Config.from_path(pristine))]
    with CheckpointReader(pristine) as reader:
        tracked = TrackedSource(reader)
        for name in names[1:]:
            tracked.tensor(name)
        with pytest.raises(CheckpointError, match="never read.*'embed.weight'"):
            tracked.check(names)
        tracked.mapped(names[0])
        tracked.check(names)
        tracked.tensor(names[0])
        with pytest.raises(CheckpointError, match="more than once.*'embed.weight'"):
            tracked.check(names)


def test_compressed_vocabulary_must_have_the_promised_size(pristine):
    config = DeepSeekV41Config.from_path(pristine)
    right = np.arange(config.engram_compressed_vocab_size)
    validate_vocabulary(right, config, "tokenizer.json")
    with pytest.raises(CheckpointError, match=r"tokenizer\.json.*engram_compressed_vocab_size"):
        validate_vocabulary(right[:-1], config, "tokenizer.json")


def test_dummy_source_has_every_tensor_in_its_stored_form(pristine):
    config = DeepSeekV41Config.from_path(pristine)
    dummy = DummySource(config, seed=5)
    with CheckpointReader(pristine) as reader:
        for spec in tensor_table(config):
            made, stored = dummy.tensor(spec.name), reader.tensor(spec.name)
            assert (made.dtype, made.shape) == (stored.dtype, stored.shape)
            assert torch.equal(made.view(torch.uint8), stored.view(torch.uint8)), spec.name
    with pytest.raises(CheckpointError, match="no tensor 'x'"):
        dummy.tensor("x")
