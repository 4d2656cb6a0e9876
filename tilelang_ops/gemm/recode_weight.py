"""FP8 weights as the matrix library reads them: scales of 128x128 tiles in place of 32x32 tiles.

The largest of the sixteen scales becomes the wide tile's, and codes under the others are multiplied by a power of two
and rounded, as in `quantize_wide`. A 32x32 tile whose scale is 2^-k of the largest, its codes up to 448, loses at most
2^(k-10) of a code's unit: for k = 8, far from what checkpoints have beside each other, a quarter.
"""

from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.gemm.quantize_wide import WIDE
from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.numeric.e8m0 import decode_e8m0

_THREADS = 256
_BYTES = 16  # of codes a thread loads at once
_SCALE_STEP = 4  # the library wants rows of scales of multiples of 16 bytes


def recode_weight_kernel(arch: str, num_out: int, dim: int) -> Any:
    """codes e4m3 [N, K] with scales of 32x32 tiles -> the same with float32 scales of 128x128 tiles; one a block.

    Args:
        arch: "sm_90a" or "sm_100a"; the code is the same.
        num_out: N.
        dim: K, a multiple of 128.
    """
    across, padded = dim // WIDE, _padded(dim)
    rows_at_once = _THREADS * _BYTES // WIDE  # 32: one row of narrow scales

    @T.prim_func
    def recode_weight(
        codes: T.Tensor((num_out, dim), "float8_e4m3fn"),
        scales: T.Tensor((-(-num_out // 32), dim // 32), "uint8"),
        out: T.Tensor((num_out, dim), "float8_e4m3fn"),
        wide_scales: T.Tensor((-(-num_out // WIDE), padded), "float32"),
    ):
        with T.Kernel(across, T.ceildiv(num_out, WIDE), threads=_THREADS) as (right, down):
            thread = T.get_thread_binding()
            values = T.alloc_local((4, _BYTES), "float8_e4m3fn")
            result = T.alloc_local((_BYTES,), "float8_e4m3fn")
            own = T.alloc_local((4,), "int32")
            wide = T.alloc_local((1,), "int32")
            row = down * WIDE + thread // 8
            column = right * WIDE + thread % 8 * _BYTES
            for j in T.unroll(4):
                own[j] = T.Cast("int32", scales[T.min(down * 4 + j, -(-num_out // 32) - 1), column // 32])
            for j in T.unroll(4):
                if row + j * rows_at_once < num_out:
                    for i in T.vectorized(_BYTES):
                        values[j, i] = codes[row + j * rows_at_once, column + i]
            wide[0] = T.max(T.max(own[0], own[1]), T.max(own[2], own[3]))
            wide[0] = T.max(wide[0], T.shfl_xor(wide[0], 2))
            wide[0] = T.max(wide[0], T.shfl_xor(wide[0], 4))
            for j in T.unroll(4):
                for i in T.vectorized(_BYTES):
                    result[i] = T.Cast(
                        "float8_e4m3fn",
                        T.Cast("float32", values[j, i]) * decode_e8m0(T.max(127 + own[j] - wide[0], 0)),
                    )
                if row + j * rows_at_once < num_out:
                    for i in T.vectorized(_BYTES):
                        out[row + j * rows_at_once, column + i] = result[i]
            if thread == 0:
                wide_scales[down, right] = decode_e8m0(wide[0])
                if right == across - 1:
                    for i in T.serial(padded - across):
                        wide_scales[down, across + i] = 0.0

    return recode_weight


def recode_weight(codes: torch.Tensor, scales: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A whole weight matrix, recoded into new memory.

    Args:
        codes: float8_e4m3fn [N, K] contiguous, K a multiple of 128.
        scales: uint8 E8M0 [ceil(N/32), K/32].

    Returns:
        Codes float8_e4m3fn [N, K] and scales float32 [ceil(N/128), K/128 rounded up to 4], zeros in the last columns.
    """
    num_out, dim = codes.shape
    out = torch.empty_like(codes)
    wide = torch.empty((-(-num_out // WIDE), _padded(dim)), dtype=torch.float32, device=codes.device)
    compiled(recode_weight_kernel, arch_of(codes.device), num_out=num_out, dim=dim)(codes, scales, out, wide)
    return out, wide


def _padded(dim: int) -> int:
    return -(-dim // WIDE // _SCALE_STEP) * _SCALE_STEP
