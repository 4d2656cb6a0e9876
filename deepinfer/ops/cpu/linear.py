"""Product with an unquantized weight matrix."""

from __future__ import annotations

import torch

from deepinfer._C import cpu
from deepinfer.ops.cpu.multiply import multiply


def linear(context: cpu.Context, x: torch.Tensor, weight: torch.Tensor, out_dtype: torch.dtype) -> torch.Tensor:
    """As `deepinfer.ops.reference.linear`: x [T, K], weight bf16 or float32 [N, K] -> out_dtype [T, N]."""
    return multiply(context, x.unsqueeze(1), weight, quantize=False, out_dtype=out_dtype)
