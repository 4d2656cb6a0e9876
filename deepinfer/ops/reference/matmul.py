"""Matrix product whose rows do not depend on each other: the base of batch invariance."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from deepinfer.ops.reference.matmul_grouped import TILE_ROWS, multiply_tiles


def matmul_rows(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """``x @ w.T`` with every row's bits independent of the other rows, their number and the thread count.

    A matrix library picks its summation order by the shape of the whole product. So the shape is fixed: rows go in
    zero-padded tiles of 16, and every tile is a product of a batch (see `multiply_tiles`).

    Args:
        x: float32 [T, K].
        w: float32 [N, K].

    Returns:
        float32 [T, N].
    """
    num_rows = x.shape[0]
    if num_rows == 0:
        return x.new_zeros(0, w.shape[0])
    num_tiles = -(-num_rows // TILE_ROWS)
    padding = num_tiles * TILE_ROWS - num_rows
    x = F.pad(x, (0, 0, 0, padding)) if padding else x
    out = multiply_tiles(x.reshape(num_tiles, TILE_ROWS, x.shape[1]), w.unsqueeze(0))
    return out.reshape(num_tiles * TILE_ROWS, w.shape[0])[:num_rows]
