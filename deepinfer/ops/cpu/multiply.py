"""The native product behind linear, quantized_linear and grouped_linear."""

from __future__ import annotations

import torch

from deepinfer._C import cpu
from deepinfer.core.quantized_weight import QuantizedWeight
from deepinfer.ops.cpu.floats import as_floats
from deepinfer.ops.cpu.native_weight import native_weight


def multiply(
    context: cpu.Context,
    x: torch.Tensor,
    weight: QuantizedWeight | torch.Tensor,
    *,
    quantize: bool,
    out_dtype: torch.dtype,
) -> torch.Tensor:
    """Group g of a row times the g-th of G equal runs of weight rows.

    Args:
        context: threads and kernels.
        x: bf16 or float32 [T, G, K].
        weight: one matrix [N, K], N a multiple of G.
        quantize: whether `x` passes Q8/32 first.
        out_dtype: bf16 or float32.

    Returns:
        out_dtype [T, N].
    """
    num_rows, num_groups, num_in = x.shape
    native = native_weight(weight)
    num_out, weight_in = weight.shape if isinstance(weight, torch.Tensor) else (weight.out_features, weight.in_features)
    assert weight_in == num_in and num_out % num_groups == 0, f"x {tuple(x.shape)}, weight [{num_out}, {weight_in}]"
    x = as_floats(x)
    out = torch.empty(num_rows, num_out)
    cpu.matmul(
        context,
        x=x.data_ptr(),
        weight=native,
        out=out.data_ptr(),
        num_rows=num_rows,
        num_groups=num_groups,
        quantizes_x=quantize,
    )
    return out.to(out_dtype)
