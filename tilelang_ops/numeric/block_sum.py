"""Sums over the threads of a block inside kernels, in a fixed order."""

from collections.abc import Callable
from typing import Any

import tilelang.language as T


def block_sum(num_threads: int) -> Callable[..., Any]:
    """A macro ``total(value, scratch)``: float32 ``value[0]`` becomes the sum over all threads, in every thread.

    `scratch` is a shared float32 buffer of one element a warp; two sums of one kernel need two of them.
    """
    warps = num_threads // 32

    @T.macro
    def total(value: Any, scratch: Any):
        value[0] = T.warp_reduce_sum(value[0])
        if warps > 1:
            if T.get_thread_binding() % 32 == 0:
                scratch[T.get_thread_binding() // 32] = value[0]
            T.sync_threads()
            value[0] = scratch[0]
            for warp in T.unroll(1, warps):
                value[0] = value[0] + scratch[warp]

    return total


def row_threads(dim: int, columns: int) -> int:
    """Threads of a block that works on one row of `dim`, `columns` a thread at a time: at least a warp, at most 256."""
    threads = 32
    while threads < 256 and threads * columns < dim:
        threads *= 2
    return threads
