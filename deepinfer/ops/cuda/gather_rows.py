"""`gather_rows` on a GPU."""

from __future__ import annotations

import math

import torch

from deepinfer.ops import reference
from tilelang_ops.yoco import gather_rows as kernels


def gather_rows(values: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """See `Ops.gather_rows`; rows that are not made of whole 32-bit words take the reference's form."""
    if values.element_size() * math.prod(values.shape[1:]) % 4:
        return reference.gather_rows(values, rows)
    return kernels.gather_rows(values.contiguous(), rows.contiguous())
