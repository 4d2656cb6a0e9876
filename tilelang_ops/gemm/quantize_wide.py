"""Q8/32 activations as the matrix library reads them: e4m3 codes with one scale for 128 columns.

The largest of the four scales of 128 columns becomes theirs. All are powers of two, so the codes of the other groups
are multiplied by a power of two and rounded: exact but for what turns subnormal. That moves a value by at most 2^-10
of the scale, of which the largest of the 128 values is more than 224 (unless they are all nearly zero).
"""

from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.numeric.e8m0 import decode_e8m0
from tilelang_ops.numeric.group32 import COLUMNS_A_LANE, quantize_lane
from tilelang_ops.numeric.rotate import rotate_lane_back

WIDE = 128  # columns of a scale
_THREADS = 128
_ROW_STEP = 4  # the library wants columns of scales to begin at multiples of 16 bytes

Rotation = tuple[torch.Tensor, torch.Tensor, int]  # cos and sin float32 [T, r/2], columns of a head


def quantize_wide_kernel(arch: str, dim: int, head_dim: int, rope_dim: int) -> Any:
    """x bf16 [T, dim] -> Q8/32 codes e4m3 [T, dim], recoded to scales float32 [dim/128, padded T]; 8 columns a thread.

    Args:
        arch: "sm_90a" or "sm_100a"; the code is the same.
        dim: columns, a multiple of 128.
        head_dim: columns a head whose last `rope_dim` are rotated back first; 0: none.
        rope_dim: columns that rotate in pairs, a multiple of 8.
    """
    num_rows, padded = T.dynamic("num_rows"), T.dynamic("padded")
    half = max(rope_dim // 2, 1)

    @T.prim_func
    def quantize_wide(
        x: T.Tensor((num_rows, dim), "bfloat16"),
        cos: T.Tensor((num_rows, half), "float32"),
        sin: T.Tensor((num_rows, half), "float32"),
        out: T.Tensor((padded, dim), "float8_e4m3fn"),
        scales: T.Tensor((dim // WIDE, padded), "float32"),
    ):
        with T.Kernel(num_rows, T.ceildiv(dim, _THREADS * COLUMNS_A_LANE), threads=_THREADS) as (row, part):
            thread = T.get_thread_binding()
            values = T.alloc_local((COLUMNS_A_LANE,), "bfloat16")
            codes = T.alloc_local((COLUMNS_A_LANE,), "float8_e4m3fn")
            result = T.alloc_local((COLUMNS_A_LANE,), "float8_e4m3fn")
            pair = T.alloc_local((2,), "float32")
            angle = T.alloc_local((2,), "float32")
            scale = T.alloc_local((1,), "int32")
            wide = T.alloc_local((1,), "int32")
            column = (part * _THREADS + thread) * COLUMNS_A_LANE
            for i in T.unroll(COLUMNS_A_LANE):
                values[i] = T.Cast("bfloat16", 0)
            if column < dim:
                for i in T.vectorized(COLUMNS_A_LANE):
                    values[i] = x[row, column + i]
                if rope_dim:
                    tail = column % head_dim - (head_dim - rope_dim)
                    if tail >= 0:
                        rotate_lane_back(values, pair, angle, cos, sin, row, tail // 2)
            quantize_lane(values, codes, result, scale, False)
            wide[0] = T.max(scale[0], T.shfl_xor(scale[0], 4))
            wide[0] = T.max(wide[0], T.shfl_xor(wide[0], 8))
            for i in T.vectorized(COLUMNS_A_LANE):
                result[i] = T.Cast(
                    "float8_e4m3fn", T.Cast("float32", codes[i]) * decode_e8m0(T.max(127 + scale[0] - wide[0], 0))
                )
            if column < dim:
                for i in T.vectorized(COLUMNS_A_LANE):
                    out[row, column + i] = result[i]
                if thread % 16 == 0:
                    scales[column // WIDE, row] = decode_e8m0(wide[0])

    return quantize_wide


def quantize_wide(x: torch.Tensor, rotation: Rotation | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Q8/32 of the rows, recoded.

    Args:
        x: bf16 [T, K] contiguous, T > 0, K a multiple of 128.
        rotation: of rows that hold heads whose last r columns are rotated back first (and rounded to bf16).

    Returns:
        Codes float8_e4m3fn [P, K] and scales float32 [K/128, P]; P is T rounded up to 4, and what lies behind T is
        anything. A row with NaN or Inf has a NaN scale.
    """
    num_rows, dim = x.shape
    padded = -(-num_rows // _ROW_STEP) * _ROW_STEP
    codes = torch.empty((padded, dim), dtype=torch.float8_e4m3fn, device=x.device)
    scales = torch.empty((dim // WIDE, padded), dtype=torch.float32, device=x.device)
    nothing = torch.empty((num_rows, 1), dtype=torch.float32, device=x.device)  # for arguments that are not touched
    cos, sin, head_dim = rotation or (nothing, nothing, 0)
    rope_dim = 2 * cos.shape[1] if rotation else 0
    kernel = compiled(quantize_wide_kernel, arch_of(x.device), dim=dim, head_dim=head_dim, rope_dim=rope_dim)
    kernel(x, cos, sin, codes, scales)
    return codes, scales
