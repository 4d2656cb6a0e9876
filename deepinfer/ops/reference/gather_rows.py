"""Some of a tensor's rows."""

from __future__ import annotations

import torch


def gather_rows(values: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """``values[rows]``: what the consumer layers keep under YOCO (spec/model.md 11), and what the head takes.

    Args:
        values: [T, ...] of any dtype.
        rows: int64 [n] in 0 .. T-1; a row may be named again.

    Returns:
        [n, ...] of that dtype, a copy.
    """
    return values[rows]
