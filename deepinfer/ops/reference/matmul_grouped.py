"""Matrix products of row tiles where each run of tiles has its own matrix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F

from deepinfer.ops.reference.bmm_rows import bmm_rows

TILE_ROWS = 16
_ALIGNMENT_BYTES = 64


def aligned(x: torch.Tensor) -> torch.Tensor:
    """Contiguous `x` whose data starts on a 64-byte border (copied only when it does not)."""
    x = x.contiguous()
    return x if x.data_ptr() % _ALIGNMENT_BYTES == 0 else x.clone()


def align_columns(x: torch.Tensor) -> torch.Tensor:
    """Zero-pad the last dim to a multiple of 16 floats (64 bytes)."""
    padding = -x.shape[-1] % TILE_ROWS
    return F.pad(x, (0, padding)) if padding else x


def multiply_tiles(tiles: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """``tile @ w.T`` of every tile, a row's bits independent of everything but itself and the matrix.

    Columns are zero-padded to a multiple of 16 (64 bytes), because unaligned rows may take another code path. A matrix
    is always applied in two halves, [16, K] x [K, N/2], so that also a single tile is a batch of two products and
    none is computed for nothing. An odd N gets a row of zeros.

    Args:
        tiles: float32 [n, 16, K], n > 0.
        w: float32 [n or 1, N, K].

    Returns:
        float32 [n, 16, N].
    """
    num_tiles, num_out = tiles.shape[0], w.shape[1]
    tiles = aligned(align_columns(tiles))
    w = aligned(align_columns(F.pad(w, (0, 0, 0, 1)) if num_out % 2 else w))
    half = w.shape[1] // 2
    if num_tiles == 1:
        pair = bmm_rows(tiles.expand(2, -1, -1), w.view(2, half, w.shape[2]).transpose(1, 2))
        out = torch.cat((pair[0], pair[1]), dim=1).unsqueeze(0)
    else:
        halves = w.transpose(1, 2).expand(num_tiles, -1, -1).split(half, dim=2)
        out = torch.cat([bmm_rows(tiles, part) for part in halves], dim=2)
    return out[:, :, :num_out] if num_out % 2 else out


def matmul_grouped(tiles: torch.Tensor, w: torch.Tensor, tiles_per_group: Sequence[int]) -> torch.Tensor:
    """Multiply consecutive tiles with the matrix of their group, ``tile @ w[group].T``; bits as in `multiply_tiles`.

    Args:
        tiles: float32 [num_tiles, 16, K], tiles of group 0 first.
        w: float32 [G, N, K].
        tiles_per_group: G counts that sum to num_tiles.

    Returns:
        float32 [num_tiles, 16, N].
    """
    begin, parts = 0, []
    for first, last, count in _runs(tiles_per_group):
        end = begin + count * (last - first)
        parts.append(multiply_tiles(tiles[begin:end], w[first:last]))
        begin = end
    if not parts:
        return tiles.new_zeros(0, TILE_ROWS, w.shape[1])
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _runs(tiles_per_group: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """(first group, end group, tiles of each): neighbours with one tile are one run, any other group is its own."""
    first = 0
    while first < len(tiles_per_group):
        count, last = tiles_per_group[first], first + 1
        while count == 1 and last < len(tiles_per_group) and tiles_per_group[last] == 1:
            last += 1
        if count:
            yield first, last, count
        first = last
