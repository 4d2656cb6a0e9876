"""Rows of an Engram table."""

from __future__ import annotations

import torch

from deepinfer._C import cpu
from deepinfer.ops.cpu.floats import as_int64


def engram_lookup(context: cpu.Context, rows: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """See `deepinfer.ops.reference.engram_lookup`; bit-equal to it."""
    num_tokens, rows_per_token = rows.shape
    rows, codes, scales = as_int64(rows), codes.contiguous(), scales.contiguous()
    out = torch.empty(num_tokens, rows_per_token * codes.shape[1], dtype=torch.float32)
    cpu.engram_lookup(
        context,
        rows=rows.data_ptr(),
        codes=codes.data_ptr(),
        scales=scales.data_ptr(),
        out=out.data_ptr(),
        num_rows=num_tokens * rows_per_token,
        dim=codes.shape[1],
    )
    return out
