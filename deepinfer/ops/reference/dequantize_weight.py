"""Dense float32 values of a quantized weight matrix, or of some of its rows."""

from __future__ import annotations

import torch

from deepinfer.core.quantized_weight import QuantizedWeight, WeightFormat
from deepinfer.ops.reference.e2m1 import decode_e2m1
from deepinfer.ops.reference.e4m3 import decode_e4m3
from deepinfer.ops.reference.power_of_two_scale import decode_e8m0

BLOCK = 32


def dequantize_weight(weight: QuantizedWeight, rows: tuple[int, int] | None = None) -> torch.Tensor:
    """code * 2^(scale-127), exactly (spec/model.md 2.1).

    Args:
        weight: one matrix or a stack of them.
        rows: (begin, end) of the output rows wanted, begin a multiple of 32; all when None.

    Returns:
        float32 [..., end - begin, in].
    """
    begin, end = rows if rows is not None else (0, weight.out_features)
    assert begin % BLOCK == 0, f"dequantize_weight: first row {begin} is not a multiple of {BLOCK}"
    codes = weight.codes[..., begin:end, :]
    if weight.format is WeightFormat.FP4_ROW32:
        values = decode_e2m1(codes)
        return _scale_row_groups(values, decode_e8m0(weight.scales[..., begin:end, :]))
    last_tile = -(-end // BLOCK)
    return _scale_tiles(decode_e4m3(codes), decode_e8m0(weight.scales[..., begin // BLOCK : last_tile, :]))


def _scale_row_groups(values: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Multiply [..., out, in] in place by one scale per row and 32 columns [..., out, ceil(in/32)]."""
    if values.shape[-1] % BLOCK:
        return values.mul_(scales.repeat_interleave(BLOCK, -1)[..., : values.shape[-1]])
    values.view(*values.shape[:-1], scales.shape[-1], BLOCK).mul_(scales.unsqueeze(-1))
    return values


def _scale_tiles(values: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Multiply [..., out, in] in place by one scale per 32x32 tile [..., ceil(out/32), ceil(in/32)]."""
    num_rows, num_columns = values.shape[-2:]
    scales = scales.repeat_interleave(BLOCK, -1)[..., :num_columns]
    if num_rows % BLOCK:
        return values.mul_(scales.repeat_interleave(BLOCK, -2)[..., :num_rows, :])
    values.view(*values.shape[:-2], num_rows // BLOCK, BLOCK, num_columns).mul_(scales.unsqueeze(-2))
    return values
