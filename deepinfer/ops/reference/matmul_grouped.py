"""Matrix products of row tiles where each run of tiles has its own matrix."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F

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


def matmul_grouped(tiles: torch.Tensor, w: torch.Tensor, tiles_per_group: Sequence[int]) -> torch.Tensor:
    """Multiply consecutive tiles with the matrix of their group; a row's bits equal those of `matmul_rows`.

    Args:
        tiles: float32 [num_tiles, 16, K], tiles of group 0 first.
        w: float32 [G, N, K].
        tiles_per_group: G counts that sum to num_tiles.

    Returns:
        float32 [num_tiles, 16, N].
    """
    tiles, w = aligned(align_columns(tiles)), aligned(align_columns(w)).transpose(1, 2)
    if all(count == 1 for count in tiles_per_group):
        return torch.bmm(tiles, w)
    out = tiles.new_empty(tiles.shape[0], TILE_ROWS, w.shape[2])
    begin = 0
    for group, count in enumerate(tiles_per_group):
        end = begin + count
        torch.bmm(tiles[begin:end], w[group].expand(count, -1, -1), out=out[begin:end])
        begin = end
    return out
