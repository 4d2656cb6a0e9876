"""One expert: gate, up and down projections."""

from __future__ import annotations

import torch

from deepinfer.core.quantized_weight import QuantizedWeight
from deepinfer.ops.reference.gated_hidden import gated_hidden
from deepinfer.ops.reference.quantized_linear import quantized_linear


def expert_mlp(
    x: torch.Tensor,
    w1: QuantizedWeight,
    w3: QuantizedWeight,
    w2: QuantizedWeight,
    row_weight: torch.Tensor | None,
    *,
    limit: float,
    quantize: bool,
    act_dtype: torch.dtype,
) -> torch.Tensor:
    """``w2 @ Q8/32(silu(w1 @ x) * (w3 @ x) * row_weight)``, clamped (spec/model.md 8).

    Args:
        x: float32 [n, D], already quantized values.
        w1: gate [I, D].
        w3: up [I, D].
        w2: down [D, I].
        row_weight: float32 [n], or None for ones.
        limit: swiglu_limit.
        quantize: whether the hidden vector passes Q8/32.
        act_dtype: gate, up, the hidden vector and the result are rounded to it.

    Returns:
        float32 [n, D].
    """
    gate = quantized_linear(x, w1, quantize=False, out_dtype=torch.float32)
    up = quantized_linear(x, w3, quantize=False, out_dtype=torch.float32)
    hidden = gated_hidden(gate, up, row_weight, limit=limit, quantize=quantize, act_dtype=act_dtype)
    out = quantized_linear(hidden, w2, quantize=False, out_dtype=act_dtype)
    return out.to(torch.float32)
