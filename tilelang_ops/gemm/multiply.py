"""Which form of a matrix product runs for a number of rows, and its launch."""

from collections.abc import Callable
from typing import Any

import torch

from tilelang_ops.gemm.few_rows import takes_few
from tilelang_ops.gemm.library_product import HAS_LIBRARY, plain_product
from tilelang_ops.gemm.row_product import MAX_ROWS, row_product_kernel
from tilelang_ops.gemm.split_rows import multiply_split, split_specs, takes_split
from tilelang_ops.gemm.tile_product import tile_product_kernel
from tilelang_ops.jit.arch import arch_of, is_sm100
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec

_ROW_STEPS = (1, 4, MAX_ROWS)  # rows of x that a block of the row form multiplies
_TILES = (64, 128)  # rows of x a tile
_SMALL_WEIGHT = 1 << 20  # elements: a product takes about as long as its launch, so fewer forms do
_ROWS_BESIDE_LIBRARY = 4  # of the row form, where the matrix library is faster with more
_MOST_SPLIT_ROWS = 32  # of unquantized weights, before the matrix library is as fast
_MIN_TILE_OUT = 16  # fewer outputs than this stay in the row form: a tile would be nearly empty
_NAMES = {torch.bfloat16: "bfloat16", torch.float32: "float32"}


def multiply(
    x: torch.Tensor, weight: torch.Tensor, num_groups: int, out_dtype: torch.dtype, batch_invariant: bool
) -> torch.Tensor:
    """x bf16 [T, G*K] times bf16 weight [G*R, K], block-diagonal for G > 1 -> out_dtype [T, G*R]."""
    arch, rows = arch_of(x.device), x.shape[0]
    if num_groups == 1 and not batch_invariant and takes_library(rows, *weight.shape, arch):
        return plain_product(x, weight, out_dtype)
    by_rows = _by_rows(rows, weight.shape[0], _most_plain_rows(*weight.shape, arch), batch_invariant)
    scales = torch.empty((1, 1), dtype=torch.uint8, device=x.device)  # an argument that bf16 weights have no use for
    if not by_rows and takes_split(rows, *weight.shape, num_groups, batch_invariant):
        return multiply_split(x, weight, scales, num_groups, out_dtype)
    out = torch.empty((rows, weight.shape[0]), dtype=out_dtype, device=x.device)
    if not rows:
        return out
    statics, shape = _statics(weight, num_groups, out_dtype), weight.shape
    if by_rows:
        compiled(row_product_kernel, arch, rows=_row_step(rows, *shape), **statics)(x, weight, scales, out)
        return out
    kernel = compiled(tile_product_kernel, arch, tile_rows=_tile_rows(rows, *shape, batch_invariant), **statics)
    if is_sm100(arch):
        kernel(x, scales, weight, scales, out)
    else:
        kernel(x, weight, scales, out)
    return out


def takes_library(num_rows: int, num_out: int, dim: int, arch: str) -> bool:
    """Whether a product with unquantized weights, not `batch_invariant`, is left to the matrix library.

    By what was measured on an H200 (torch 2.11, CUDA 13.0): from 33 rows on it is as fast or faster (512x5120 at 64
    rows 7.4 us either way, at 256 29 -> 8.5; 129280x256 at 64 34 -> 29); from 9 where the weight is small (128x512 at
    64 rows 4.9 -> 3.1); from 5 where the split form does not fit (129280x5120 at 8 rows 416 -> 308, at 16 494 -> 315).
    """
    if not HAS_LIBRARY or is_sm100(arch) or num_rows <= _most_plain_rows(num_out, dim, arch) or num_out < _MIN_TILE_OUT:
        return False
    is_small = num_out * dim <= _SMALL_WEIGHT
    return num_rows > _MOST_SPLIT_ROWS or is_small or not takes_split(num_rows, num_out, dim, 1, False)


def multiply_quantized(
    quantizer: Callable[[bool], tuple[torch.Tensor, torch.Tensor]],
    num_rows: int,
    codes: torch.Tensor,
    scales: torch.Tensor,
    *,
    num_groups: int,
    out_dtype: torch.dtype,
    batch_invariant: bool,
) -> torch.Tensor:
    """Q8/32 activations times FP8 weights with scales of 32x32 tiles, block-diagonal for G > 1.

    Args:
        quantizer: called once with whether the form wants values (bf16 [T, G*K]) instead of codes (e4m3 [T, G*K]);
            returns them and the scales uint8 [T, G*K/32].
        num_rows: T.
        codes: float8_e4m3fn [G*R, K], K a multiple of 32.
        scales: uint8 E8M0 [ceil(G*R/32), K/32].
        num_groups: G.
        out_dtype: bf16 or float32.
        batch_invariant: one form for all numbers of rows.

    Returns:
        out_dtype [T, G*R].
    """
    arch, by_rows = arch_of(codes.device), _by_rows(num_rows, codes.shape[0], MAX_ROWS, batch_invariant)
    if not by_rows and takes_split(num_rows, *codes.shape, num_groups, batch_invariant):
        return multiply_split(quantizer(True)[0], codes, scales, num_groups, out_dtype)
    out = torch.empty((num_rows, codes.shape[0]), dtype=out_dtype, device=codes.device)
    if not num_rows:
        return out
    statics, shape = _statics(codes, num_groups, out_dtype), codes.shape
    if by_rows:
        x, _ = quantizer(True)
        compiled(row_product_kernel, arch, rows=_row_step(num_rows, *shape), **statics)(x, codes, scales, out)
        return out
    kernel = compiled(tile_product_kernel, arch, tile_rows=_tile_rows(num_rows, *shape, batch_invariant), **statics)
    x, x_scales = quantizer(not is_sm100(arch))
    if is_sm100(arch):
        kernel(x, x_scales, codes, scales, out)
    else:
        kernel(x, codes, scales, out)
    return out


def multiply_specs(
    name: str, num_out: int, dim: int, *, num_groups: int = 1, quantized: bool, out_dtype: str
) -> list[KernelSpec]:
    """Every form of a product with one weight shape, but for those of `few_specs`; none for a width that 32 does not
    divide: it has no kernels.
    """
    if dim % 32:
        return []
    statics = {"num_out": num_out, "dim": dim, "num_groups": num_groups, "quantized": quantized, "out_dtype": out_dtype}
    note = "few rows: as fast as the weights arrive, without tensor cores"
    specs = [
        KernelSpec(f"{name}.rows", row_product_kernel, statics | {"rows": rows}, {}, note)
        for rows in _row_steps(num_out, dim)
        if not (quantized and takes_few(rows, num_out, dim, num_groups, False))
    ]
    specs += split_specs(name, num_out, dim, num_groups=num_groups, quantized=quantized, out_dtype=out_dtype)
    if num_out >= _MIN_TILE_OUT:
        instructions = {"sm_90a": "wgmma", "sm_100a": "tcgen05"}
        specs += [
            KernelSpec(f"{name}.tiles", tile_product_kernel, statics | {"tile_rows": rows}, instructions)
            for rows in _tiles(num_out, dim)
        ]
    return specs


def _statics(weight: torch.Tensor, num_groups: int, out_dtype: torch.dtype) -> dict[str, Any]:
    num_out, dim = weight.shape
    quantized = weight.dtype is torch.float8_e4m3fn
    return {
        "num_out": num_out,
        "dim": dim,
        "num_groups": num_groups,
        "quantized": quantized,
        "out_dtype": _NAMES[out_dtype],
    }


def _by_rows(num_rows: int, num_out: int, most_rows: int, batch_invariant: bool) -> bool:
    return num_out < _MIN_TILE_OUT or (num_rows <= most_rows and not batch_invariant)


def _most_plain_rows(num_out: int, dim: int, arch: str) -> int:
    """Most rows of the row form with an unquantized weight. With eight, 512x5120 takes 10.7 us (split 5.7), 129280x256
    41 (split 22), 129280x5120 416 (library 308), 128x512 1.8 (library 3.0).
    """
    has_others = HAS_LIBRARY and not is_sm100(arch) and num_out * dim > _SMALL_WEIGHT
    return _ROWS_BESIDE_LIBRARY if has_others else MAX_ROWS


def _row_steps(num_out: int, dim: int) -> tuple[int, ...]:
    return (1, MAX_ROWS) if num_out * dim <= _SMALL_WEIGHT else _ROW_STEPS


def _row_step(num_rows: int, num_out: int, dim: int) -> int:
    return next((step for step in _row_steps(num_out, dim) if step >= num_rows), MAX_ROWS)


def _tiles(num_out: int, dim: int) -> tuple[int, ...]:
    return _TILES[:1] if num_out * dim <= _SMALL_WEIGHT else _TILES


def _tile_rows(num_rows: int, num_out: int, dim: int, batch_invariant: bool) -> int:
    tiles = _tiles(num_out, dim)
    return tiles[0] if batch_invariant or num_rows <= tiles[0] else tiles[-1]
