"""The one batched matrix product of the reference ops."""

from __future__ import annotations

import torch


def bmm_rows(a: torch.Tensor, b: torch.Tensor, add: torch.Tensor | None = None) -> torch.Tensor:
    """``a @ b (+ add)`` for every product of a batch, its bits independent of the batch and of the number of threads.

    A batch of two or more is computed product by product, each on one thread, in an order that depends on the shape of
    one product only. A batch of one is handed to a product that splits its sums over threads; it is computed twice
    instead and the copy dropped.

    Args:
        a: float32 [B, M, K], or one that is expanded along B.
        b: float32 [B, K, N], likewise.
        add: float32, broadcastable to [B, M, N], or None.

    Returns:
        float32 [B, M, N].
    """
    if a.shape[0] == 1:
        twice = bmm_rows(a.expand(2, -1, -1), b.expand(2, -1, -1), None if add is None else add.expand(2, -1, -1))
        return twice[:1]
    return torch.bmm(a, b) if add is None else torch.baddbmm(add, a, b)
