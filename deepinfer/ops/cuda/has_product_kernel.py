"""Which quantized products the kernels take."""

from __future__ import annotations

import torch

from deepinfer.core.quantized_weight import QuantizedWeight, WeightFormat


def has_product_kernel(x: torch.Tensor, weight: QuantizedWeight) -> bool:
    """Whether there is a kernel for these: bf16 activations, FP8 weights, a width that 32 divides."""
    fp8 = weight.format is WeightFormat.FP8_BLOCK32
    return x.dtype is torch.bfloat16 and fp8 and weight.in_features % 32 == 0
