"""Products of at most eight rows with FP8 weights in one launch: which take this form, and how the work is cut."""

import torch

from tilelang_ops.gemm.few_product import CHUNK, OUTPUTS, ROWS, FewShape, few_product_kernel
from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec

_NAMES = {torch.bfloat16: "bfloat16", torch.float32: "float32"}
_NOTE = (
    "few rows: one matrix instruction is as wide as they are many, so that mma.sync is as fast as the weights arrive"
)
_ROW_STEPS = (1, 4, ROWS)  # rows of x that a kernel is made for
_SMALL_WEIGHT = 1 << 20  # elements: a product takes about as long as its launch, so fewer forms do
_STREAMED_WEIGHT = 1 << 26  # elements: from here on the row form takes one row, since it loads with fewer stops
_SHARED_BYTES = 160 << 10  # for the codes of the rows
_WARPS = 8  # of a block
_BLOCKS = 256  # with which every multiprocessor has two
_LEAST_BLOCKS = 128
_LEAST_STEPS = 4  # of 64 columns a warp


def takes_few(num_rows: int, num_out: int, dim: int, num_groups: int, batch_invariant: bool) -> bool:
    """Whether `multiply_few` is the form for a product; with `batch_invariant` no number of rows has one of its own."""
    streamed = num_rows == 1 and num_out * dim >= _STREAMED_WEIGHT
    return not batch_invariant and num_rows <= ROWS and not streamed and _fits(num_out, dim, num_groups)


def multiply_few(
    x: torch.Tensor,
    rope: tuple[torch.Tensor, torch.Tensor, int] | None,
    codes: torch.Tensor,
    scales: torch.Tensor,
    num_groups: int,
    out_dtype: torch.dtype,
) -> torch.Tensor:
    """Q8/32 of the rows times FP8 weights with scales of 32x32 tiles, block-diagonal for G > 1; see `takes_few`.

    Args:
        x: bf16 [T, G*K], at most eight rows; K a multiple of 32.
        rope: cos and sin float32 [T, r/2] and the head size, where x holds heads that are rotated back first; or None.
        codes: float8_e4m3fn [G*R, K].
        scales: uint8 E8M0 [ceil(G*R/32), K/32].
        num_groups: G.
        out_dtype: bf16 or float32.

    Returns:
        out_dtype [T, G*R]; float32 sums, rounded once.
    """
    num_rows, (num_out, dim) = x.shape[0], codes.shape
    out = torch.empty((num_rows, num_out), dtype=out_dtype, device=x.device)
    if not num_rows:
        return out
    rows = next(step for step in _row_steps(num_out, dim) if step >= num_rows)
    nothing = torch.empty((1, 1), device=x.device)  # for arguments that are not touched
    cos, sin, head_dim = rope or (nothing, nothing, 0)
    kernel = compiled(
        few_product_kernel,
        arch_of(x.device),
        num_out=num_out,
        dim=dim,
        num_groups=num_groups,
        rows=rows,
        shape=_shape(num_out, dim, num_groups, rows),
        out_dtype=_NAMES[out_dtype],
        head_dim=head_dim,
        rope_dim=2 * cos.shape[1] if rope else 0,
    )
    kernel(x, cos, sin, codes, scales, out)
    return out


def few_specs(
    name: str, num_out: int, dim: int, *, num_groups: int = 1, out_dtype: str, head: tuple[int, int] = (0, 0)
) -> list[KernelSpec]:
    """Every form of `multiply_few` for one weight shape; `head` is the size of heads that are rotated, and of what
    rotates.
    """
    if not _fits(num_out, dim, num_groups):
        return []
    statics = {"num_out": num_out, "dim": dim, "num_groups": num_groups, "out_dtype": out_dtype}
    statics |= {"head_dim": head[0], "rope_dim": head[1]}
    return [
        KernelSpec(
            f"{name}.few",
            few_product_kernel,
            statics | {"rows": rows, "shape": _shape(num_out, dim, num_groups, rows)},
            note=_NOTE,
        )
        for rows in _row_steps(num_out, dim)
        if takes_few(rows, num_out, dim, num_groups, False)
    ]


def _fits(num_out: int, dim: int, num_groups: int) -> bool:
    return dim % 32 == 0 and num_out // num_groups % OUTPUTS == 0 and ROWS * dim <= _SHARED_BYTES


def _row_steps(num_out: int, dim: int) -> tuple[int, ...]:
    return (1, ROWS) if num_out * dim <= _SMALL_WEIGHT else _ROW_STEPS


def _shape(num_out: int, dim: int, num_groups: int, rows: int) -> FewShape:
    """By what was measured on an H200 at the shapes of V4.1-Flash: two blocks of eight warps a multiprocessor, a warp
    with all columns if there are outputs enough; loads run ahead by what registers allow.
    """
    tiles, splits = _tiles_and_splits(num_out, dim, num_groups)
    steps = -(-dim // (CHUNK * splits))
    most = 10 if steps <= 10 else 6 if rows == 1 else 8
    even = max(n for n in range(1, most + 1) if steps % n == 0)
    depth = even if even >= _LEAST_STEPS else min(most, steps)
    return FewShape(tiles, splits, depth, blocks=3 if rows == 1 and splits > 1 and depth <= 6 else 2)


def _tiles_and_splits(num_out: int, dim: int, num_groups: int) -> tuple[int, int]:
    possible = [tiles for tiles in (8, 4, 2, 1) if num_out // num_groups % (tiles * OUTPUTS) == 0]

    def blocks(tiles: int) -> int:
        return num_out // (tiles * OUTPUTS)

    tiles = next((tiles for tiles in possible if blocks(tiles) >= _BLOCKS), 1)
    steps = dim // CHUNK
    splits = next(n for n in (8, 4, 2, 1) if n == 1 or (tiles * n <= _WARPS and n * _LEAST_STEPS <= steps))
    while tiles * splits < _WARPS and 2 * tiles in possible and blocks(2 * tiles) >= _LEAST_BLOCKS:
        tiles *= 2
    return tiles, splits
