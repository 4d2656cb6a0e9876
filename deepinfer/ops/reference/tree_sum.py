"""Sum over one dim in a fixed order: a halving tree of elementwise additions."""

from __future__ import annotations

import torch


def tree_sum(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """Sum as if `dim` were zero-padded to a power of two and its halves added until one element is left.

    Only elementwise additions are used, so a sum's bits depend on its own terms alone. Zero terms at the end change
    nothing.

    Args:
        x: float32 [..., n, ...].
        dim: the dim to remove.

    Returns:
        float32, `x` without `dim`.
    """
    n = x.shape[dim]
    if n == 0:
        return x.sum(dim)
    while n > 1:
        half = 1 << ((n - 1).bit_length() - 1)  # largest power of two below n
        low, high = x.narrow(dim, 0, half), x.narrow(dim, half, n - half)
        if half == n - half:
            x = low + high
        else:
            x = low.clone()
            x.narrow(dim, 0, n - half).add_(high)
        n = half
    return x.squeeze(dim)
