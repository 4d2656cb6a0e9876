"""Rows as bytes, which travel between ranks whatever they hold."""

from __future__ import annotations

import torch


def row_bytes(values: torch.Tensor) -> torch.Tensor:
    """[n, D] of any dtype -> uint8 [n, bytes]."""
    num_bytes = values.shape[1] * values.element_size()
    # Flat in between: a dimension of size one may have any stride.
    return values.reshape(-1).view(torch.uint8).view(values.shape[0], num_bytes)
