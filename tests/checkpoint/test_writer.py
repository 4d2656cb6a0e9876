"""Random checkpoints: consistent for any config, repeatable, and with given tensors put in their place."""

import json

import pytest
import torch
from tokenizers import Tokenizer

from deepinfer.checkpoint.reader import CheckpointReader
from deepinfer.checkpoint.validate import validate_checkpoint
from deepinfer.checkpoint.writer import write_random_checkpoint
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.errors import ConfigError
from tests.support.tiny_config import tiny_config

LAYOUTS = {
    "tiny": {},
    "window only": {
        "compress_ratios": [0, 0],
        "num_hidden_layers": 2,
        "kv_source_layer_ids": [],
        "index_source_layer_ids": [],
        "candidate_source_layer_id": None,
        "candidate_topk_blocks": None,
        "candidate_block_size": None,
        "engram_layer_ids": [0],
        "num_nextn_predict_layers": 0,
    },
    "ratio 1 only": {
        "compress_ratios": [1, 1, 1],
        "num_hidden_layers": 3,
        "kv_source_layer_ids": [0],
        "index_source_layer_ids": [0, 1, 2],
        "candidate_source_layer_id": 1,
        "engram_layer_ids": [],
        "num_nextn_predict_layers": 0,
    },
    "odd sizes": {
        "q_lora_rank": 40,
        "o_lora_rank": 5,
        "moe_intermediate_size": 50,
        "engram_head_dim": 20,
        "engram_max_ngram_size": 2,
        "engram_n_heads": 3,
        "hc_mult": 2,
    },
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_config_gives_a_valid_checkpoint(tmp_path, layout):
    config = write_random_checkpoint(tiny_config(**LAYOUTS[layout]), tmp_path, shards=2)
    assert config == DeepSeekV41Config.from_path(tmp_path)
    with CheckpointReader(tmp_path) as reader:
        validate_checkpoint(reader, config)
        assert len({entry.shard for entry in reader.entries.values()}) == 2


def test_same_seed_same_bytes(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_random_checkpoint(tiny_config(), tmp_path / name, seed=seed)
    first, second, third = ((tmp_path / name / "model.safetensors").read_bytes() for name in "abc")
    assert first == second != third


def test_engram_sizes_follow_from_tokenizer_and_hash(tmp_path):
    config = write_random_checkpoint(tiny_config(), tmp_path)
    assert config.engram_num_embeddings == (97 + 101 + 103 + 107 + 109 + 113, 127 + 131 + 137 + 139 + 149 + 151)
    assert 200 < config.engram_compressed_vocab_size < 288  # upper and lower case letters share a number


@pytest.mark.parametrize("vocab_size", [64, 259, 288, 600])
def test_tokenizer_fills_the_vocabulary(tmp_path, vocab_size):
    write_random_checkpoint(tiny_config(vocab_size=vocab_size, dspark_noise_token_id=5), tmp_path)
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert sorted(tokenizer.get_vocab().values()) == list(range(vocab_size))
    assert tokenizer.id_to_token(0) == "<｜begin▁of▁sentence｜>"
    if vocab_size >= 259:
        assert tokenizer.decode(tokenizer.encode("the cat, é한").ids) == "the cat, é한"


def test_given_tokenizer_is_copied(tmp_path):
    write_random_checkpoint(tiny_config(vocab_size=600), tmp_path / "a")
    source = tmp_path / "a" / "tokenizer.json"
    config = write_random_checkpoint(tiny_config(vocab_size=620), tmp_path / "b", tokenizer_json=source)
    assert (tmp_path / "b" / "tokenizer.json").read_bytes() == source.read_bytes()
    assert json.loads((tmp_path / "b" / "tokenizer_config.json").read_text())["bos_token"]
    assert config.engram_compressed_vocab_size <= 600


def test_overrides_by_name_and_pattern(tmp_path):
    matrix = torch.eye(64)
    codes = torch.full((64, 24), 0x21, dtype=torch.uint8)
    overrides = {
        "layers.*.attn.wo_b.weight": 0.0,
        "layers.3.attn.wo_b.weight": torch.full((64, 32), 2.0),
        "embed.weight": torch.ones(288, 64),
        "layers.0.ffn.experts.1.w2.weight": codes,
        "layers.0.ffn.experts.1.w2.scale": 120,
        "layers.0.ffn.experts.0.w1.weight": matrix[:48],
    }
    write_random_checkpoint(tiny_config(), tmp_path, overrides=overrides)
    with CheckpointReader(tmp_path) as reader:
        validate_checkpoint(reader, DeepSeekV41Config.from_path(tmp_path))
        assert not reader.tensor("layers.2.attn.wo_b.weight").float().any()
        values = reader.tensor("layers.3.attn.wo_b.weight").float()
        scale = torch.exp2(reader.tensor("layers.3.attn.wo_b.scale").float() - 127)
        assert torch.equal(values * scale[0, 0], torch.full((64, 32), 2.0))
        assert (reader.tensor("embed.weight") == 1).all()
        assert torch.equal(reader.tensor("layers.0.ffn.experts.1.w2.weight"), codes)
        assert (reader.tensor("layers.0.ffn.experts.1.w2.scale") == 120).all()


@pytest.mark.parametrize(
    "overrides",
    [
        {"layers.9.*": 0.0},
        {"embed.weight": torch.ones(3, 64)},
        {"embed.weight": torch.ones(288, 64, dtype=torch.int64)},
        {"layers.0.attn.wq_a.scale": torch.ones(1, 2)},
        {"layers.0.attn.wq_a.weight": torch.zeros(32, 64).to(torch.float8_e4m3fn)},
    ],
)
def test_wrong_overrides(tmp_path, overrides):
    with pytest.raises(ConfigError, match="overrides"):
        write_random_checkpoint(tiny_config(), tmp_path, overrides=overrides)
