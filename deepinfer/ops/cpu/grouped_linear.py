"""Block-diagonal product: every group of columns has its own quantized weight rows."""

from __future__ import annotations

import torch

from deepinfer._C import cpu
from deepinfer.core.quantized_weight import QuantizedWeight
from deepinfer.ops.cpu.multiply import multiply


def grouped_linear(
    context: cpu.Context, x: torch.Tensor, weight: QuantizedWeight, *, quantize: bool, out_dtype: torch.dtype
) -> torch.Tensor:
    """As `deepinfer.ops.reference.grouped_linear`: x [T, G, K], weight [G*R, K] -> out_dtype [T, G*R]."""
    return multiply(context, x, weight, quantize=quantize, out_dtype=out_dtype)
