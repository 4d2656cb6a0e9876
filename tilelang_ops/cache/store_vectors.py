"""Norm, rotate, quantize and store: how a vector gets into a cache."""

import math
from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.cache.vector_quantizer import (
    COLUMNS,
    code_bytes,
    group_size,
    packed_byte,
    quantizer,
    vector_bytes,
)
from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.numeric.rotate import rotated_even, rotated_odd
from tilelang_ops.numeric.round_bf16 import round_bf16

_WARPS = 4
_LANES = 32


def store_vectors_kernel(arch: str, dim: int, rope_dim: int, rounding: str, has_weight: bool) -> Any:
    """One warp a row: eight columns a lane, then the next 256 columns. Rows with a negative unit are skipped."""
    num_rows, num_units, num_entries = T.dynamic("num_rows"), T.dynamic("num_units"), T.dynamic("num_entries")
    chunks, num_bytes = dim // COLUMNS, vector_bytes(rounding, dim)
    steps = -(-chunks // _LANES)
    data_bytes, group_threads = code_bytes(rounding, COLUMNS), group_size(rounding) // COLUMNS
    width = math.gcd(num_bytes, data_bytes)
    quantize = quantizer(rounding)

    @T.prim_func
    def store_vectors(
        x: T.Tensor((num_rows, dim), "bfloat16"),
        weight: T.Tensor((dim,), "bfloat16"),
        cos: T.Tensor((num_rows, rope_dim // 2), "float32"),
        sin: T.Tensor((num_rows, rope_dim // 2), "float32"),
        data: T.Tensor((num_units, num_entries, num_bytes), "uint8"),
        units: T.Tensor((num_rows,), "int64"),
        places: T.Tensor((num_rows,), "int64"),
        eps: T.float32,
    ):
        with T.Kernel(T.ceildiv(num_rows, _WARPS), threads=_WARPS * _LANES) as block:
            values = T.alloc_local((steps * COLUMNS,), "float32")
            total = T.alloc_local((1,), "float32")
            pair = T.alloc_local((2,), "float32")
            codes = T.alloc_local((COLUMNS,), "int32")
            scale = T.alloc_local((1,), "int32")
            packed = T.alloc_local((data_bytes,), "uint8")
            unit = T.alloc_local((1,), "int64")
            place = T.alloc_local((1,), "int64")
            lane = T.get_thread_binding() % _LANES
            row = block * _WARPS + T.get_thread_binding() // _LANES
            unit[0] = T.int64(-1)
            if row < num_rows:
                unit[0] = units[row]
                place[0] = places[row]
            if unit[0] >= T.int64(0):  # the same for all lanes of the warp
                for i in T.unroll(steps * COLUMNS):
                    values[i] = T.float32(0)
                for step in T.unroll(steps):
                    if step * _LANES + lane < chunks:
                        for i in T.vectorized(COLUMNS):
                            values[step * COLUMNS + i] = T.Cast("float32", x[row, (step * _LANES + lane) * COLUMNS + i])
                if has_weight:
                    total[0] = T.float32(0)
                    for i in T.unroll(steps * COLUMNS):
                        total[0] = total[0] + values[i] * values[i]
                    total[0] = T.rsqrt(T.warp_reduce_sum(total[0]) / T.float32(dim) + eps)
                    for step in T.unroll(steps):
                        if step * _LANES + lane < chunks:
                            for i in T.unroll(COLUMNS):
                                values[step * COLUMNS + i] = round_bf16(
                                    values[step * COLUMNS + i]
                                    * total[0]
                                    * T.Cast("float32", weight[(step * _LANES + lane) * COLUMNS + i])
                                )
                for step in T.unroll(steps):
                    for i in T.unroll(COLUMNS // 2):
                        column = (step * _LANES + lane) * COLUMNS + 2 * i
                        if column >= dim - rope_dim and column < dim:
                            angle = (column - (dim - rope_dim)) // 2
                            pair[0] = values[step * COLUMNS + 2 * i]
                            pair[1] = values[step * COLUMNS + 2 * i + 1]
                            values[step * COLUMNS + 2 * i] = round_bf16(
                                rotated_even(pair[0], pair[1], cos[row, angle], sin[row, angle])
                            )
                            values[step * COLUMNS + 2 * i + 1] = round_bf16(
                                rotated_odd(pair[0], pair[1], cos[row, angle], sin[row, angle])
                            )
                for step in T.unroll(steps):
                    quantize(values, step * COLUMNS, codes, scale)
                    chunk = step * _LANES + lane
                    for i in T.unroll(data_bytes):
                        packed[i] = packed_byte(rounding, codes, i)
                    if chunk < chunks:
                        for part in T.unroll(data_bytes // width):
                            for i in T.vectorized(width):
                                data[unit[0], place[0], chunk * data_bytes + part * width + i] = packed[
                                    part * width + i
                                ]
                        if chunk % group_threads == 0:
                            data[unit[0], place[0], code_bytes(rounding, dim) + chunk // group_threads] = T.Cast(
                                "uint8", scale[0]
                            )

    return store_vectors


def store_vectors(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    cos: torch.Tensor,
    sin: torch.Tensor,
    data: torch.Tensor,
    units: torch.Tensor,
    places: torch.Tensor,
    *,
    rounding: str,
    eps: float,
) -> None:
    """Writes ``data[units, places]`` in place.

    Args:
        x: bf16 [n, d] contiguous, d a multiple of 32.
        weight: bf16 [d] of the norm, or None: not normed.
        cos: float32 [n, r/2].
        sin: float32 [n, r/2].
        data: uint8 [units, entries, bytes] contiguous.
        units: int64 [n]; rows below 0 are not stored.
        places: int64 [n].
        rounding: as in `vector_quantizer`.
        eps: of the norm.
    """
    num_rows, dim = x.shape
    if num_rows:
        kernel = compiled(
            store_vectors_kernel,
            arch_of(x.device),
            dim=dim,
            rope_dim=2 * cos.shape[1],
            rounding=rounding,
            has_weight=weight is not None,
        )
        kernel(x, x[0] if weight is None else weight, cos, sin, data, units, places, eps)


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """Window, main entries (FP4 or FP8; the norm is shared with the index key) and index keys."""
    forms = [
        (sizes.head_dim, "fp8_group32", True),
        (sizes.head_dim, "fp8_group32", False),
        (sizes.head_dim, "fp4_group16", False),
        (sizes.index_head_dim, "fp4_group32", True),
    ]
    return [
        KernelSpec(
            "cache.store_vectors",
            store_vectors_kernel,
            {"dim": dim, "rope_dim": sizes.rope_dim, "rounding": rounding, "has_weight": has_weight},
        )
        for dim, rounding, has_weight in forms
    ]
