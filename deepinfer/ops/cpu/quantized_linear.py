"""Product with a quantized weight matrix."""

from __future__ import annotations

import torch

from deepinfer._C import cpu
from deepinfer.core.quantized_weight import QuantizedWeight
from deepinfer.ops.cpu.multiply import multiply


def quantized_linear(
    context: cpu.Context, x: torch.Tensor, weight: QuantizedWeight, *, quantize: bool, out_dtype: torch.dtype
) -> torch.Tensor:
    """As `deepinfer.ops.reference.quantized_linear`: x [T, K], weight [N, K] -> out_dtype [T, N]."""
    return multiply(context, x.unsqueeze(1), weight, quantize=quantize, out_dtype=out_dtype)
