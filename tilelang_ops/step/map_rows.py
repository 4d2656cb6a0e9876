"""Where a decode step's rows find and leave things, for all layers at once: windows, entries, rotary rows, n-grams."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.jit.triton_jit import triton_jit
from tilelang_ops.jit.triton_spec import TritonSpec

MAX_RATIOS = 2
_NUM_WARPS = 4
_BLOCK = 256  # windows and lists of entries
_PARTS = 4  # of a row, and two of each ratio
_COLUMNS = 64  # of rotary rows and n-grams
_ALIGNED_ROWS = 16
_FIRST_COLUMNS, _ENTRY_COLUMNS = tl.constexpr(3), tl.constexpr(6)


@dataclass(frozen=True, slots=True)
class GivenRows:
    """T rows, int64 [T] contiguous, of a step's tables of blocks.

    Attributes:
        positions, slots, first_blocks, offsets: of each row.
        seqs: below 0 for padding.
        block_ids: [B].
    """

    positions: torch.Tensor
    slots: torch.Tensor
    seqs: torch.Tensor
    first_blocks: torch.Tensor
    offsets: torch.Tensor
    block_ids: torch.Tensor


@dataclass(frozen=True, slots=True)
class MapSizes:
    """Sizes of the maps.

    Attributes:
        window, window_ring, block_size: positions.
        entry_rings: at most MAX_RATIOS pairs (ratio, slots of its ring).
        list_sizes: for each of these, places of the list of all visible entries; 0: none is wanted.
    """

    window: int
    window_ring: int
    block_size: int
    entry_rings: tuple[tuple[int, int], ...]
    list_sizes: tuple[int, ...]


@triton_jit
def _copy_rope(cos, sin, out, position, row, num_rows, half, COLUMNS: tl.constexpr):
    """Row `position` of two float32 tables of `half` columns into row `row` of out [2, num_rows, half]."""
    for start in range(0, half, COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        inside = column < half
        first = tl.load(cos + position * half + column, mask=inside)
        second = tl.load(sin + position * half + column, mask=inside)
        place = out + row.to(tl.int64) * half + column
        tl.store(place, first, mask=inside)
        tl.store(place + num_rows.to(tl.int64) * half, second, mask=inside)


@triton_jit
def _map_window(index, out, position, slot, is_real, row, stride, window, ring, BLOCK: tl.constexpr):
    """The first three columns, and the places of the row's window."""
    tl.store(out, row.to(tl.int64))
    tl.store(out + stride, tl.where(is_real, slot, -1))
    tl.store(out + 2 * stride, position % ring)
    for start in range(0, window, BLOCK):
        column = start + tl.arange(0, BLOCK)
        seen = position + (column + 1 - window)
        place = tl.where(seen >= 0, slot * ring + tl.maximum(seen, 0) % ring, -1)
        tl.store(index + row.to(tl.int64) * window + column, place, mask=column < window)


@triton_jit
def _map_entries(
    blocks, out, everything, position, slot, first_block, starts_here, is_real, row, stride, block_size, ratio, ring,
    list_size, BLOCK: tl.constexpr,
):  # fmt: skip
    """Six columns of one ratio, and the list of what the row sees."""
    entry = position // ratio
    per_block = block_size // ratio
    num_visible = (position + 1) // ratio
    completes = is_real & ((position + 1) % ratio == 0)
    block = tl.load(blocks + first_block + entry // per_block)
    tl.store(out, num_visible)
    tl.store(out + stride, entry * ratio)
    tl.store(out + 2 * stride, tl.where(completes, block, -1))
    tl.store(out + 3 * stride, entry % per_block)
    tl.store(out + 4 * stride, tl.where(starts_here, slot * ring + (position + ring - 1) % ring, -1))
    tl.store(out + 5 * stride, position % ring)
    for start in range(0, list_size, BLOCK):
        number = start + tl.arange(0, BLOCK)
        values = tl.where(number < num_visible, number, -1).to(tl.int64)
        tl.store(everything + row.to(tl.int64) * list_size + number, values, mask=number < list_size)


@triton_jit
def _map_ngrams(grams, vocab, ids, row, num_grams, pad, COLUMNS: tl.constexpr):
    """Compressed ids of the row's n-gram."""
    for start in range(0, num_grams, COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        inside = column < num_grams
        token = tl.load(grams + row.to(tl.int64) * num_grams + column, mask=inside, other=0)
        found = tl.load(vocab + tl.where(token >= 0, token, pad), mask=inside, other=0)
        tl.store(ids + row.to(tl.int64) * num_grams + column, found, mask=inside)


@triton_jit(
    do_not_specialize=[
        "num_rows", "stride", "window", "window_ring", "block_size", "half", "pad", "num_grams",
        "ratio_a", "ring_a", "list_a", "ratio_b", "ring_b", "list_b",
    ]
)  # fmt: skip
def map_rows_kernel(
    positions, slots, seqs, first_blocks, offsets, blocks, grams, vocab, window_cos, window_sin, cos, sin,
    out, index, rope, ids, everything_a, everything_b, num_rows, stride, window, window_ring, block_size, half, pad,
    num_grams, ratio_a, ring_a, list_a, ratio_b, ring_b, list_b, BLOCK: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Program (row, part): a row waits for its loads, so what does not depend on each other is apart."""
    row, part = tl.program_id(0), tl.program_id(1)
    position, slot = tl.load(positions + row), tl.load(slots + row)
    first_block, is_real = tl.load(first_blocks + row), tl.load(seqs + row) >= 0
    starts_here = tl.load(offsets + row) <= 0
    pair, columns = 2 * num_rows.to(tl.int64) * half, out + _FIRST_COLUMNS * stride + row
    if part == 0:
        _map_window(index, out + row, position, slot, is_real, row, stride, window, window_ring, BLOCK)
    elif part == 1:
        _copy_rope(window_cos, window_sin, rope, position, row, num_rows, half, COLUMNS)
    elif part == 2:
        _copy_rope(cos, sin, rope + pair, position, row, num_rows, half, COLUMNS)
    elif part == 3:
        _map_ngrams(grams, vocab, ids, row, num_grams, pad, COLUMNS)
    elif part == 4:
        _map_entries(
            blocks, columns, everything_a, position, slot, first_block, starts_here, is_real, row, stride, block_size,
            ratio_a, ring_a, list_a, BLOCK,
        )  # fmt: skip
    elif part == 5:
        _copy_rope(cos, sin, rope + 2 * pair, position // ratio_a * ratio_a, row, num_rows, half, COLUMNS)
    elif part == 6:
        _map_entries(
            blocks, columns + _ENTRY_COLUMNS * stride, everything_b, position, slot, first_block, starts_here, is_real,
            row, stride, block_size, ratio_b, ring_b, list_b, BLOCK,
        )  # fmt: skip
    else:
        _copy_rope(cos, sin, rope + 3 * pair, position // ratio_b * ratio_b, row, num_rows, half, COLUMNS)


@dataclass(frozen=True, slots=True)
class MappedRows:
    """Maps of T rows.

    Attributes:
        columns: int64 [3 + 6 E, T], rows apart from each other: number, slot (-1: padding), place in the window ring;
            for each of E ratios number of visible entries, position at which the group begins, block of its entry (-1:
            not complete), place in the block, place of the token before in all rings (-1: in this step), own place in
            its ring.
        window_index: int64 [T, W] places slot * ring + p % ring; -1 before the start.
        ropes: float32 [2 + E, 2 (cos, sin), T, r / 2]: of the positions in both tables, and where each ratio's groups
            begin, in the second.
        ngrams: int64 [T, n].
        everything: for each ratio int64 [T, list size] 0 .. visible - 1, -1 behind them.
    """

    columns: torch.Tensor
    window_index: torch.Tensor
    ropes: torch.Tensor
    ngrams: torch.Tensor
    everything: tuple[torch.Tensor, ...]


def map_rows(
    rows: GivenRows,
    sizes: MapSizes,
    ropes: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor],
    grams: torch.Tensor,
    vocab: tuple[torch.Tensor, int],
) -> MappedRows:
    """One launch.

    Args:
        rows: T.
        sizes: of the maps.
        ropes: two tables, cos and sin float32 [positions, r / 2] of each, contiguous.
        grams: int64 [T, n] contiguous token ids, below 0 for none.
        vocab: int64 [V] what stands for each token, and the token that stands for none; with n = 0 anything.
    """
    count, half, device = len(rows.positions), ropes[0].shape[1], rows.positions.device
    num_ratios = len(sizes.entry_rings)
    stride = triton.cdiv(count, _ALIGNED_ROWS) * _ALIGNED_ROWS
    columns = torch.empty((3 + 6 * num_ratios, stride), dtype=torch.int64, device=device)
    index = torch.empty((count, sizes.window), dtype=torch.int64, device=device)
    rope = torch.empty((2 + num_ratios, 2, count, half), dtype=torch.float32, device=device)
    ids = torch.empty(grams.shape, dtype=torch.int64, device=device)
    lists = tuple(torch.empty((count, size), dtype=torch.int64, device=device) for size in sizes.list_sizes)
    given = (rows.positions, rows.slots, rows.seqs, rows.first_blocks, rows.offsets, rows.block_ids, grams, vocab[0])
    unused = [ids] * (MAX_RATIOS - num_ratios)
    outputs = (columns, index, rope, ids, *lists, *unused)
    numbers = [count, stride, sizes.window, sizes.window_ring, sizes.block_size, half, vocab[1], grams.shape[1]]
    for (ratio, ring), size in zip(sizes.entry_rings, sizes.list_sizes, strict=True):
        numbers += [ratio, ring, size]
    numbers += [0, 1, 0] * len(unused)
    options = {"BLOCK": _BLOCK, "COLUMNS": _COLUMNS, "num_warps": _NUM_WARPS, "enable_fp_fusion": False}
    if count:
        with torch.cuda.device_of(columns):
            map_rows_kernel[count, _PARTS + 2 * num_ratios](*given, *ropes, *outputs, *numbers, **options)
    return MappedRows(columns[:, :count], index, rope, ids, lists)


def kernel_specs(sizes: ModelSizes) -> list[TritonSpec]:
    """One for all models."""
    floats, integers = ["*fp32"] * 4, "*i64"
    signature = (*[integers] * 8, *floats, integers, integers, "*fp32", *[integers] * 3, *["i32"] * 14)
    return [TritonSpec("step.map_rows", map_rows_kernel, signature, {"BLOCK": _BLOCK, "COLUMNS": _COLUMNS}, _NUM_WARPS)]
