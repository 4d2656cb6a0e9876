"""Norm, rotate, quantize and store: how a vector gets into a cache."""

from __future__ import annotations

import torch

from deepinfer.core.cache_tensors import VectorCache
from deepinfer.ops.primitive_ops import PrimitiveOps


def store_vectors(
    ops: PrimitiveOps,
    x: torch.Tensor,
    weight: torch.Tensor | None,
    cos: torch.Tensor,
    sin: torch.Tensor,
    cache: VectorCache,
    units: torch.Tensor,
    places: torch.Tensor,
    *,
    eps: float,
    act_dtype: torch.dtype,
) -> None:
    """`rms_norm`, `apply_rope` and `encode_vectors` in turn, each result rounded to the activation dtype; writes
    ``cache.data[units, places]``. No place may be named twice (spec/model.md 4.1, 5 and 6).

    Args:
        ops: has those three.
        x: act_dtype [n, d].
        weight: bf16 or float32 [d] of the norm; None: `x` is not normed.
        cos: float32 [n, r/2].
        sin: float32 [n, r/2].
        cache: where to; data uint8 [units, entries, bytes].
        units: int64 [n] block or state slot; a row below 0 is not stored.
        places: int64 [n] entry of the unit.
        eps: of the norm.
        act_dtype: bf16 or float32.
    """
    if weight is not None:
        x = ops.rms_norm(x, weight, eps, act_dtype)
    encoded = ops.encode_vectors(ops.apply_rope(x, cos, sin), cache.format)
    stored = units >= 0
    if bool(stored.all()):
        cache.data[units, places] = encoded
    else:
        cache.data[units[stored], places[stored]] = encoded[stored]
