"""Products of more than a few and at most 64 rows: which take the split form, and how the work is cut."""

from functools import cache

import torch

from tilelang_ops.gemm.add_splits import add_splits_kernel
from tilelang_ops.gemm.split_product import SplitShape, split_product_kernel
from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec

MAX_ROWS = 64
_NAMES = {torch.bfloat16: "bfloat16", torch.float32: "float32"}
_NOTE = "SM100: mma.sync, as few rows are bound by the weights' arrival"
_ROW_STEPS = (16, 32, MAX_ROWS)  # rows of x that a kernel is made for
_SMALL_WEIGHT = 1 << 20  # elements: a product takes about as long as its launch, so fewer forms do
_STREAMED_WEIGHT = 1 << 28  # elements: enough tiles without splits
_TILES = (256, 128, 64)  # outputs a block
_TILE_DIM = 128  # columns a step
_SHARED_BYTES = 200 << 10
_MOST_STAGES = 6
_BLOCKS = 132  # that run at a time on an H200, one a multiprocessor
_BYTES_A_US = 42_000  # that one of them reads
_STEP_US = 0.45  # of a step at least: decoding and the product
_COMBINE_US, _COMBINE_BYTES_A_US = 2.0, 3_000_000  # launch of the second kernel, and what it reads


def takes_split(num_rows: int, num_out: int, dim: int, num_groups: int, batch_invariant: bool) -> bool:
    """Whether `multiply_split` is the form for a product; `batch_invariant`: no number of rows has one of its own."""
    fits = dim % _TILE_DIM == 0 and num_out // num_groups % _TILES[-1] == 0 and num_out * dim < _STREAMED_WEIGHT
    return not batch_invariant and 0 < num_rows <= MAX_ROWS and fits


def multiply_split(
    x: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor, num_groups: int, out_dtype: torch.dtype
) -> torch.Tensor:
    """x times a weight matrix, block-diagonal for G > 1; see `takes_split`.

    Args:
        x: bf16 [T, G*K], K a multiple of 128; Q8/32 values where the weights are FP8.
        weight: float8_e4m3fn or bf16 [G*R, K], R a multiple of 64.
        scales: uint8 E8M0 [ceil(G*R/32), K/32]; for bf16 weights any of one element.
        num_groups: G.
        out_dtype: bf16 or float32.

    Returns:
        out_dtype [T, G*R]; float32 sums, rounded once.
    """
    num_rows, (num_out, dim) = x.shape[0], weight.shape
    arch, quantized = arch_of(x.device), weight.dtype is torch.float8_e4m3fn
    shape, splits = split_shape(num_out, dim, num_groups, _row_step(num_rows, num_out, dim), weight.element_size())
    part_dtype = out_dtype if splits == 1 else torch.float32
    parts = torch.empty((splits, num_rows, num_out), dtype=part_dtype, device=x.device)
    statics = {"num_out": num_out, "dim": dim, "num_groups": num_groups, "quantized": quantized, "shape": shape}
    compiled(split_product_kernel, arch, **statics, out_dtype=_NAMES[part_dtype])(x, weight, scales, parts)
    if splits == 1:
        return parts[0]
    out = torch.empty((num_rows, num_out), dtype=out_dtype, device=x.device)
    compiled(add_splits_kernel, arch, splits=splits, out_dtype=_NAMES[out_dtype])(
        parts.view(splits, -1, 4), out.view(-1, 4)
    )
    return out


def split_specs(
    name: str, num_out: int, dim: int, *, num_groups: int = 1, quantized: bool, out_dtype: str
) -> list[KernelSpec]:
    """Every form of `multiply_split` for one weight shape."""
    if not takes_split(MAX_ROWS, num_out, dim, num_groups, False):
        return []
    statics = {"num_out": num_out, "dim": dim, "num_groups": num_groups, "quantized": quantized}
    specs = []
    for rows in _row_steps(num_out, dim):
        shape, splits = split_shape(num_out, dim, num_groups, rows, 1 if quantized else 2)
        part_dtype = out_dtype if splits == 1 else "float32"
        form = statics | {"shape": shape, "out_dtype": part_dtype}
        specs.append(KernelSpec(f"{name}.split", split_product_kernel, form, {"sm_90a": "wgmma"}, _NOTE))
        if splits > 1:
            sums = {"splits": splits, "out_dtype": out_dtype}
            specs.append(KernelSpec("gemm.add_splits", add_splits_kernel, sums))
    return specs


def _row_steps(num_out: int, dim: int) -> tuple[int, ...]:
    return _ROW_STEPS[-1:] if num_out * dim <= _SMALL_WEIGHT else _ROW_STEPS


def _row_step(num_rows: int, num_out: int, dim: int) -> int:
    return next(step for step in _row_steps(num_out, dim) if step >= num_rows)


@cache
def split_shape(num_out: int, dim: int, num_groups: int, rows: int, weight_bytes: int) -> tuple[SplitShape, int]:
    """The cut that should take least, and its splits: rounds of blocks that each read weights and x at one rate, and
    what adding up takes.
    """
    steps, best = dim // _TILE_DIM, None
    for tile_out in _TILES:
        if num_out // num_groups % tile_out:
            continue
        step_bytes = _TILE_DIM * (tile_out * weight_bytes + rows * 2)
        for count in range(1, steps + 1):  # steps a block
            splits = -(-steps // count)
            rounds = -(-(num_out // tile_out * splits) // _BLOCKS)
            cost = rounds * count * max(step_bytes / _BYTES_A_US, _STEP_US)
            if splits > 1:
                cost += _COMBINE_US + 2 * splits * rows * num_out * 4 / _COMBINE_BYTES_A_US
            if best is None or cost < best[0]:
                stages = max(2, min(_MOST_STAGES, count, _SHARED_BYTES // step_bytes))
                best = (cost, SplitShape(tile_out, rows, count, stages, 1), splits)
    assert best is not None  # the smallest tile divides the outputs
    return best[1:]
