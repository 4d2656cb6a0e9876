"""Rows of an Engram table."""

from __future__ import annotations

import torch

from deepinfer.ops.reference.dequantize_fp8_group32 import dequantize_fp8_group32


def engram_lookup(rows: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Concatenate the table rows of every token (spec/model.md 9.3). Only the rows asked for are read.

    Args:
        rows: int64 [T, R]; -1 gives zeros.
        codes: float8_e4m3fn (or its bits as uint8) [V, hd], maybe memory-mapped.
        scales: uint8 [V, ceil(hd/32)].

    Returns:
        float32 [T, R*hd] on the device of `rows`.
    """
    flat = rows.reshape(-1)
    index = flat.clamp_min(0).to(codes.device)
    picked = codes.view(torch.uint8).index_select(0, index).to(rows.device)
    values = dequantize_fp8_group32(picked, scales.index_select(0, index).to(rows.device))
    values = torch.where((flat < 0).unsqueeze(1), 0.0, values)
    return values.view(rows.shape[0], rows.shape[1] * codes.shape[1])
