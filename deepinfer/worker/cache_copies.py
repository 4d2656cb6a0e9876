"""Copies the cache units of a fork: what it may not share with the sequence that it came from."""

from __future__ import annotations

import numpy as np

from deepinfer.core.cache_tensors import CacheTensors
from deepinfer.core.device_arrays import device_arrays


def copy_cache_units(caches: CacheTensors, slot_copies: np.ndarray, block_copies: np.ndarray) -> None:
    """Copy state slots (window and compressor rings) and blocks (main and index entries), in place.

    Args:
        caches: every cache.
        slot_copies, block_copies: int32 [n, 2] source and destination; no unit is both.
    """
    if not len(slot_copies) and not len(block_copies):  # nearly always
        return
    rings = [cache.data for cache in caches.window.values()] + list(caches.compressor.values())
    pages = [cache.data for pool in (caches.main, caches.index) for cache in pool.values()]
    for pairs, tensors in ((slot_copies, rings), (block_copies, pages)):
        if not len(pairs) or not tensors:
            continue
        source, destination = device_arrays(tensors[0].device, *pairs.T)
        for tensor in tensors:
            tensor[destination] = tensor[source]
