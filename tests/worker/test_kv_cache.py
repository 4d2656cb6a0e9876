"""The cache table: which caches exist, their layout, their bytes; and the allocated tensors."""

import json
import resource
from pathlib import Path

import pytest
import torch

from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.config.numerics import Numerics
from deepinfer.core.cache_spec import CacheKind, KVRounding
from deepinfer.errors import ConfigError
from deepinfer.worker.kv_cache import allocate_caches, block_bytes, cache_table, slot_bytes
from tests.support.tiny_config import tiny_config

DATA = Path(__file__).parents[2] / "deepinfer" / "data"


@pytest.fixture(scope="module")
def flash():
    return DeepSeekV41Config.from_path(DATA / "configs" / "deepseek-v41-flash.json")


@pytest.fixture(scope="module")
def mini():
    return DeepSeekV41Config.from_path(DATA / "mini")


def _by_kind(table, kind):
    return {spec.layer_id: spec for spec in table if spec.kind is kind}


def test_published_layout(flash):
    table = cache_table(flash, Numerics.OFFICIAL, "auto", 128)
    main, index = _by_kind(table, CacheKind.MAIN), _by_kind(table, CacheKind.INDEX)
    assert list(main) == list(index) == [2, 8, 14, 20]
    assert [(spec.ratio, spec.num_entries, spec.entry_bytes) for spec in main.values()] == 3 * [(2, 64, 288)] + [
        (1, 128, 288)
    ]
    assert {spec.entry_bytes for spec in index.values()} == {68}
    window, compressor = _by_kind(table, CacheKind.WINDOW), _by_kind(table, CacheKind.COMPRESSOR)
    assert list(window) == list(range(40))
    assert {(spec.num_entries, spec.entry_bytes) for spec in window.values()} == {(128, 528)}
    assert {layer: (spec.num_entries, spec.entry_bytes) for layer, spec in compressor.items()} == dict.fromkeys(
        (2, 8, 14), (2, 4096)
    )
    assert block_bytes(table) == 113_920


@pytest.mark.parametrize("block_size", [2, 8, 128, 130])
def test_bytes_per_token_do_not_depend_on_the_block(flash, block_size):
    assert block_bytes(cache_table(flash, Numerics.OFFICIAL, "fp4", block_size)) == 890 * block_size
    assert block_bytes(cache_table(flash, Numerics.OFFICIAL, "fp8", block_size)) == 1490 * block_size


def test_rings_with_drafts(flash):
    table = cache_table(flash, Numerics.OFFICIAL, "auto", 128, num_drafts=5)
    assert len(_by_kind(table, CacheKind.WINDOW)) == 43
    assert {spec.num_entries for spec in _by_kind(table, CacheKind.WINDOW).values()} == {134}
    assert {spec.num_entries for spec in _by_kind(table, CacheKind.COMPRESSOR).values()} == {7}
    assert slot_bytes(table) == 3_042_336 + 86_016


@pytest.mark.parametrize(
    ("numerics", "dtype", "main", "packed"),
    [
        (Numerics.OFFICIAL, "auto", KVRounding.FP4_GROUP16, True),
        (Numerics.FP32_QUANT, "auto", KVRounding.FP4_GROUP16, True),
        (Numerics.OFFICIAL, "fp8", KVRounding.FP8_GROUP32, True),
        (Numerics.FP32_QUANT, "float32", KVRounding.FP4_GROUP16, False),
        (Numerics.FP32, "auto", KVRounding.NONE, False),
        (Numerics.FP32, "float32", KVRounding.NONE, False),
    ],
)
def test_formats(mini, numerics, dtype, main, packed):
    table = cache_table(mini, numerics, dtype, 64)
    formats = {spec.kind: spec.format for spec in table}
    assert (formats[CacheKind.MAIN].rounding, formats[CacheKind.MAIN].packed) == (main, packed)
    if numerics.quantize:
        assert formats[CacheKind.INDEX].rounding is KVRounding.FP4_GROUP32
        assert formats[CacheKind.WINDOW].rounding is KVRounding.FP8_GROUP32
    assert formats[CacheKind.INDEX].packed is formats[CacheKind.WINDOW].packed is packed
    assert formats[CacheKind.COMPRESSOR].rounding is KVRounding.NONE


@pytest.mark.parametrize(("dtype", "block_size"), [("fp4", 64), ("fp8", 64), ("int4", 64), ("auto", 3), ("auto", 0)])
def test_wrong_requests(mini, dtype, block_size):
    with pytest.raises(ConfigError, match="kv_cache_dtype|block_size"):
        cache_table(mini, Numerics.FP32, dtype, block_size)


def test_blocks_without_ratio_2_may_be_odd():
    config = tiny_config(
        compress_ratios=[1, 1, 0], num_hidden_layers=2, kv_source_layer_ids=[0], index_source_layer_ids=[0],
        candidate_source_layer_id=0, engram_layer_ids=[], engram_vocab_size=None, num_nextn_predict_layers=1,
        dspark_target_layer_ids=[1],
        engram_num_embeddings=[], engram_compressed_vocab_size=1,
    )  # fmt: skip
    table = cache_table(DeepSeekV41Config.from_dict(config), Numerics.OFFICIAL, "auto", 3)
    assert not _by_kind(table, CacheKind.COMPRESSOR)
    assert _by_kind(table, CacheKind.MAIN)[0].num_entries == 3


def test_allocated_shapes(mini):
    table = cache_table(mini, Numerics.OFFICIAL, "auto", 16)
    caches = allocate_caches(table, num_blocks=5, num_slots=3, device="cpu")
    assert caches.block_size == 16
    assert {layer: tuple(cache.data.shape) for layer, cache in caches.main.items()} == {2: (5, 8, 72), 5: (5, 16, 72)}
    assert {layer: tuple(cache.data.shape) for layer, cache in caches.index.items()} == {2: (5, 8, 34), 5: (5, 16, 34)}
    assert {tuple(cache.data.shape) for cache in caches.window.values()} == {(3, 64, 132)}
    assert {layer: tuple(cache.shape) for layer, cache in caches.compressor.items()} == {2: (3, 2, 2, 128)}
    assert caches.compressor[2].dtype == torch.float32 and not caches.compressor[2].any()
    assert not any(cache.data.any() for cache in caches.main.values())


def test_pages_are_touched_on_first_use_only(flash):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    caches = allocate_caches(cache_table(flash, Numerics.OFFICIAL, "auto", 128), num_blocks=20_000, num_slots=1)
    assert sum(cache.data.numel() for cache in caches.main.values()) > 1 << 30
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


def test_published_config_is_the_bundled_one():
    values = json.loads((DATA / "configs" / "deepseek-v41-flash.json").read_text(encoding="utf-8"))
    assert values["text_config"]["compress_ratios"].count(2) == 18
