"""Ratio-2 compression: each finished pair of tokens becomes one vector."""

from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.numeric.exponential import exp

_THREADS = 128
_COLUMNS = 4


def compress_pairs_kernel(arch: str, dim: int) -> Any:
    """Four columns a thread; a pair's first token is a row of the step or of the state."""
    num_rows, num_pairs, num_places = T.dynamic("num_rows"), T.dynamic("num_pairs"), T.dynamic("num_places")
    chunks = dim // _COLUMNS

    @T.prim_func
    def compress_pairs(
        step: T.Tensor((num_rows, 2, dim), "float32"),
        state: T.Tensor((num_places, 2, dim), "float32"),
        second: T.Tensor((num_pairs,), "int64"),
        carried: T.Tensor((num_pairs,), "int64"),
        out: T.Tensor((num_pairs, dim), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(num_pairs * chunks, _THREADS), threads=_THREADS) as block:
            score = T.alloc_local((2 * _COLUMNS,), "float32")  # of the first token, then of the second
            value = T.alloc_local((2 * _COLUMNS,), "float32")
            weight = T.alloc_local((2,), "float32")
            pooled = T.alloc_local((_COLUMNS,), "bfloat16")
            row = T.alloc_local((1,), "int64")
            place = T.alloc_local((1,), "int64")
            index = block * _THREADS + T.get_thread_binding()
            pair = index // chunks
            column = index % chunks * _COLUMNS
            if pair < num_pairs:
                row[0] = second[pair]
                place[0] = carried[pair]
                if place[0] >= T.int64(0):
                    for i in T.vectorized(_COLUMNS):
                        score[i] = state[place[0], 0, column + i]
                    for i in T.vectorized(_COLUMNS):
                        value[i] = state[place[0], 1, column + i]
                else:
                    for i in T.vectorized(_COLUMNS):
                        score[i] = step[row[0] - T.int64(1), 0, column + i]
                    for i in T.vectorized(_COLUMNS):
                        value[i] = step[row[0] - T.int64(1), 1, column + i]
                for i in T.vectorized(_COLUMNS):
                    score[_COLUMNS + i] = step[row[0], 0, column + i]
                for i in T.vectorized(_COLUMNS):
                    value[_COLUMNS + i] = step[row[0], 1, column + i]
                for i in T.unroll(_COLUMNS):
                    for token in T.unroll(2):
                        weight[token] = exp(score[token * _COLUMNS + i] - T.max(score[i], score[_COLUMNS + i]))
                    pooled[i] = T.Cast(
                        "bfloat16",
                        T.ieee_fdiv(
                            T.ieee_add(T.ieee_mul(weight[0], value[i]), T.ieee_mul(weight[1], value[_COLUMNS + i])),
                            T.ieee_add(weight[0], weight[1]),
                        ),
                    )
                for i in T.vectorized(_COLUMNS):
                    out[pair, column + i] = pooled[i]

    return compress_pairs


def compress_pairs(new: torch.Tensor, state: torch.Tensor, second: torch.Tensor, carried: torch.Tensor) -> torch.Tensor:
    """Softmax over a pair's two scores per column, applied to the values.

    Args:
        new: float32 [T, 2 (score, value), d] contiguous, d a multiple of 4.
        state: float32 [places, 2, d] contiguous.
        second: int64 [n] rows of `new` that are the second of their pair.
        carried: int64 [n] places of `state` with the first; -1: it is the row before.

    Returns:
        bf16 [n, d].
    """
    dim = new.shape[2]
    out = torch.empty((second.shape[0], dim), dtype=torch.bfloat16, device=new.device)
    if second.shape[0]:
        compiled(compress_pairs_kernel, arch_of(new.device), dim=dim)(new, state, second, carried, out)
    return out


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """One: pairs are compressed at the width of a head."""
    return [KernelSpec("compress.compress_pairs", compress_pairs_kernel, {"dim": sizes.head_dim})]
