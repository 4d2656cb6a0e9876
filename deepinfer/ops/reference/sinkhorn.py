"""Sinkhorn normalisation of small square matrices."""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F

from deepinfer.ops.reference.bmm_rows import bmm_rows
from deepinfer.ops.reference.matmul_grouped import TILE_ROWS


def sinkhorn(exponentials: torch.Tensor, *, iters: int, eps: float) -> torch.Tensor:
    """Make the rows and columns of positive matrices sum to about one (spec/model.md 3).

    Row softmax (its exponentials are the input), plus eps; divide by column sums; then iters - 1 times by row sums and
    column sums, eps added to each sum. The last step is columns.

    All S*S entries of a matrix are one row of a [16, P] tile, so that one product with a 0/1 matrix gives the sums of
    its rows (or columns) in place of each entry: two calls a pass, and sums that do not depend on other matrices. There
    are at least two tiles, so that no product is a batch of one.

    Args:
        exponentials: float32 [T, S, S], exp(A - row maximum).
        iters: number of column passes.
        eps: see above.

    Returns:
        float32 [T, S, S].
    """
    num_rows, size, _ = exponentials.shape
    row_sums, column_sums = _sum_patterns(size, exponentials.device)
    width = row_sums.shape[-1]
    flat = exponentials.reshape(num_rows, size * size)
    num_tiles = max(2, -(-num_rows // TILE_ROWS))
    flat = F.pad(flat, (0, width - size * size, 0, num_tiles * TILE_ROWS - num_rows), value=1.0)
    a = flat.view(num_tiles, TILE_ROWS, width)
    row_sums, column_sums = row_sums.expand(num_tiles, -1, -1), column_sums.expand(num_tiles, -1, -1)
    bias = a.new_full((1, 1, 1), eps)
    a.div_(bmm_rows(a, row_sums)).add_(bias)
    a.div_(bmm_rows(a, column_sums, bias))
    for _ in range(iters - 1):
        a.div_(bmm_rows(a, row_sums, bias))
        a.div_(bmm_rows(a, column_sums, bias))
    entries = a.view(num_tiles * TILE_ROWS, width)[:num_rows, : size * size]
    return entries.reshape(num_rows, size, size)


@functools.cache
def _sum_patterns(size: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """0/1 matrices float32 [P, P], P = size^2 rounded up to 16: entry (a, b) is one where a and b share row (column).

    Padding entries are alone in their row and column.
    """
    entries, padding = size * size, -(size * size) % TILE_ROWS
    index = torch.arange(entries, device=device)
    spare = entries + torch.arange(padding, device=device)
    row, column = torch.cat((index // size, spare)), torch.cat((index % size, spare))
    same_row, same_column = row[:, None] == row, column[:, None] == column
    return same_row.to(torch.float32), same_column.to(torch.float32)
