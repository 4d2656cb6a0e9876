"""Product with a quantized weight matrix."""

from __future__ import annotations

import torch

from deepinfer.core.cache_spec import KVRounding
from deepinfer.core.quantized_weight import QuantizedWeight
from deepinfer.ops.reference.dequantize_weight import dequantize_weight
from deepinfer.ops.reference.matmul import matmul_rows
from deepinfer.ops.reference.round_vectors import round_vectors

_BLOCK_ELEMENTS = 1 << 20  # weights dequantized at a time
_BLOCK_ROWS = 64  # a block is a multiple of this


def quantized_linear(
    x: torch.Tensor, weight: QuantizedWeight, *, quantize: bool, out_dtype: torch.dtype
) -> torch.Tensor:
    """``Q8/32(x) @ weight.T`` with float32 accumulation, rounded once (spec/model.md 2.4).

    Every dequantized operand is exact, so only the order of summation is this op's own.

    Args:
        x: bf16 or float32 [T, K].
        weight: one matrix [N, K].
        quantize: whether `x` passes Q8/32 first.
        out_dtype: bf16 or float32.

    Returns:
        out_dtype [T, N].
    """
    x = round_vectors(x, KVRounding.FP8_GROUP32 if quantize else KVRounding.NONE)
    num_out = weight.out_features
    block = max(_BLOCK_ROWS, _BLOCK_ELEMENTS // weight.in_features // _BLOCK_ROWS * _BLOCK_ROWS)
    parts = []
    for begin in range(0, num_out, block):
        dense = dequantize_weight(weight, (begin, min(begin + block, num_out)))
        parts.append(matmul_rows(x, dense).to(out_dtype))
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
