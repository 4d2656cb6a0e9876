"""Mixture of experts on a GPU."""

from __future__ import annotations

import torch

from deepinfer.core.quantized_weight import QuantizedWeight, WeightFormat
from deepinfer.ops import reference
from tilelang_ops.moe.moe import moe as run_experts


def moe(
    batch_invariant: bool,
    x: torch.Tensor,
    ids: torch.Tensor,
    weights: torch.Tensor,
    w1: QuantizedWeight,
    w3: QuantizedWeight,
    w2: QuantizedWeight,
    shared: tuple[QuantizedWeight, QuantizedWeight, QuantizedWeight] | None,
    *,
    limit: float,
    quantize: bool,
    act_dtype: torch.dtype,
    likely: int | None = None,
) -> torch.Tensor:
    """See `Ops.moe`. The kernels are for bf16, quantized activations, FP4 experts, an FP8 shared one and widths that 32
    divides; everything else takes the reference's form.
    """
    routed = (w1, w3, w2)
    packed = all(weight.format is WeightFormat.FP4_ROW32 for weight in routed) and all(
        weight.format is WeightFormat.FP8_BLOCK32 for weight in shared or ()
    )
    fits = w1.in_features % 32 == 0 and w2.in_features % 32 == 0
    if not (packed and fits and quantize and x.dtype is torch.bfloat16 and act_dtype is torch.bfloat16):
        return reference.moe(x, ids, weights, w1, w3, w2, shared, limit=limit, quantize=quantize, act_dtype=act_dtype)
    return run_experts(
        x.contiguous(),
        ids,
        weights,
        tuple((weight.codes, weight.scales) for weight in routed),
        None if shared is None else tuple((weight.codes, weight.scales) for weight in shared),
        limit=limit,
        batch_invariant=batch_invariant,
        likely=likely,
    )
