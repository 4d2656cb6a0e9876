"""Dot product of every row of one tensor with the same row of another."""

from __future__ import annotations

import torch

from deepinfer.ops.reference.bmm_rows import bmm_rows
from deepinfer.ops.reference.matmul_grouped import align_columns, aligned


def row_dot(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Sum of ``x * y`` over the last dim; a batch of [1, n] x [n, 1] products, so rows are independent.

    Args:
        x: float32 [..., n].
        y: float32 [..., n].

    Returns:
        float32 [...].
    """
    n = x.shape[-1]
    left = aligned(align_columns(x.reshape(-1, n)))
    right = left if y is x else aligned(align_columns(y.reshape(-1, n)))
    return bmm_rows(left.unsqueeze(1), right.unsqueeze(2)).view(x.shape[:-1])
