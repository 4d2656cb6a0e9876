"""Sums of the parts that a product split over its columns leaves."""

from typing import Any

import tilelang.language as T

_THREADS = 256
_COLUMNS = 4  # of a thread: 16 bytes


def add_splits_kernel(arch: str, splits: int, out_dtype: str) -> Any:
    """``out = sum_z parts[z]`` in order, rounded once; four places a thread.

    Args:
        arch: "sm_90a" or "sm_100a"; the code is the same.
        splits: Z.
        out_dtype: "bfloat16" or "float32".
    """
    count = T.dynamic("count")

    @T.prim_func
    def add_splits(parts: T.Tensor((splits, count, _COLUMNS), "float32"), out: T.Tensor((count, _COLUMNS), out_dtype)):
        with T.Kernel(T.ceildiv(count, _THREADS), threads=_THREADS) as block:
            loaded = T.alloc_local((splits, _COLUMNS), "float32")
            total = T.alloc_local((_COLUMNS,), "float32")
            result = T.alloc_local((_COLUMNS,), out_dtype)
            place = block * _THREADS + T.get_thread_binding()
            if place < count:
                for z in T.unroll(splits):
                    for i in T.vectorized(_COLUMNS):
                        loaded[z, i] = parts[z, place, i]
                for i in T.unroll(_COLUMNS):
                    total[i] = loaded[0, i]
                    for z in T.unroll(1, splits):
                        total[i] = total[i] + loaded[z, i]
                for i in T.vectorized(_COLUMNS):
                    result[i] = T.Cast(out_dtype, total[i])
                for i in T.vectorized(_COLUMNS):
                    out[place, i] = result[i]

    return add_splits
