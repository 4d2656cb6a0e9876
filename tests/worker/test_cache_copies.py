"""Copies of cache units: exactly the named units of exactly the right caches change."""

import numpy as np
import torch

from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.config.numerics import Numerics
from deepinfer.worker.cache_copies import copy_cache_units
from deepinfer.worker.kv_cache import allocate_caches, cache_table
from tests.support.golden_case import GOLDEN


def test_slots_and_blocks_are_copied() -> None:
    config = DeepSeekV41Config.from_path(GOLDEN / "nano-s1")
    caches = allocate_caches(cache_table(config, Numerics.FP32, "auto", 8), num_blocks=6, num_slots=4)
    rings = [cache.data for cache in caches.window.values()] + list(caches.compressor.values())
    pages = [cache.data for pool in (caches.main, caches.index) for cache in pool.values()]
    assert caches.main and caches.index and caches.window and caches.compressor
    for tensor in (*rings, *pages):
        tensor.copy_(torch.arange(tensor.numel()).reshape(tensor.shape) % 251)
    before = [tensor.clone() for tensor in (*rings, *pages)]
    pairs = np.array([[0, 1], [0, 3]], dtype=np.int32)
    copy_cache_units(caches, pairs, np.empty((0, 2), np.int32))
    copy_cache_units(caches, np.empty((0, 2), np.int32), np.array([[4, 2]], dtype=np.int32))
    for place, (tensor, old) in enumerate(zip((*rings, *pages), before, strict=True)):
        sources = [0, 0, 2, 0] if place < len(rings) else [0, 1, 4, 3, 4, 5]
        assert torch.equal(tensor, old[sources])
