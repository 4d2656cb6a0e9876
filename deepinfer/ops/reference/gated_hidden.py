"""The hidden vector of an expert: clamped SwiGLU, weighted and quantized."""

from __future__ import annotations

import torch

from deepinfer.core.cache_spec import KVRounding
from deepinfer.ops.reference.exact_math import silu
from deepinfer.ops.reference.round_vectors import round_vectors


def gated_hidden(
    gate: torch.Tensor,
    up: torch.Tensor,
    row_weight: torch.Tensor | None,
    *,
    limit: float,
    quantize: bool,
    act_dtype: torch.dtype,
) -> torch.Tensor:
    """``silu(min(gate, limit)) * clamp(up, -limit, limit) * row_weight``, then Q8/32 (spec/model.md 8).

    Args:
        gate: float32 [n, I].
        up: float32 [n, I].
        row_weight: float32 [n] routing weights (they go in before the quantizer), or None.
        limit: swiglu_limit.
        quantize: whether the result passes Q8/32.
        act_dtype: gate, up and the product are rounded to it first.

    Returns:
        float32 [n, I].
    """
    gate, up = gate.to(act_dtype).to(torch.float32), up.to(act_dtype).to(torch.float32)
    hidden = silu(gate.clamp_max(limit)).mul_(up.clamp(-limit, limit))
    if row_weight is not None:
        hidden.mul_(row_weight.unsqueeze(1))
    return round_vectors(hidden.to(act_dtype), KVRounding.FP8_GROUP32 if quantize else KVRounding.NONE)
