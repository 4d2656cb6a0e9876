"""Matrix product whose rows do not depend on each other: the base of batch invariance."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from deepinfer.ops.reference.matmul_grouped import TILE_ROWS, align_columns, aligned


def matmul_rows(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """``x @ w.T`` with every row's bits independent of the other rows, their number and the thread count.

    A matrix library picks its summation order by the shape of the whole product. So the shape is fixed: rows go in
    zero-padded tiles of 16, and every tile is one product [16, K] x [K, N] of a batch. Columns are zero-padded to a
    multiple of 16 (64 bytes), because unaligned rows may take another code path. A single output column is computed
    twice, because a batch of one product with one column would become a matrix-vector product.

    Args:
        x: float32 [T, K].
        w: float32 [N, K].

    Returns:
        float32 [T, N].
    """
    num_rows = x.shape[0]
    if num_rows == 0:
        return x.new_zeros(0, w.shape[0])
    num_out = w.shape[0]
    x, w = align_columns(x), align_columns(w if num_out > 1 else w.expand(2, -1))
    num_tiles = -(-num_rows // TILE_ROWS)
    padding = num_tiles * TILE_ROWS - num_rows
    x = F.pad(x, (0, 0, 0, padding)) if padding else aligned(x)
    tiles = x.view(num_tiles, TILE_ROWS, x.shape[1])
    out = torch.bmm(tiles, aligned(w).t().expand(num_tiles, -1, -1))
    return out.view(num_tiles * TILE_ROWS, -1)[:num_rows, :num_out]
