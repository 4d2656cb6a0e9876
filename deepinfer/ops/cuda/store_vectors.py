"""`store_vectors` on a GPU."""

from __future__ import annotations

import torch

from deepinfer.core.cache_spec import KVRounding
from deepinfer.core.cache_tensors import VectorCache
from deepinfer.ops import reference
from tilelang_ops.cache import store_vectors as kernels


def store_vectors(
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
    """See `Ops.store_vectors`; float32 activations and caches that are not packed take the reference's form."""
    has_float32 = x.dtype is not torch.bfloat16 or (weight is not None and weight.dtype is not torch.bfloat16)
    unpacked = not cache.format.packed or cache.format.rounding is KVRounding.NONE or x.shape[-1] % 32
    if has_float32 or act_dtype is not torch.bfloat16 or unpacked or not cache.data.is_contiguous():
        return reference.store_vectors(x, weight, cos, sin, cache, units, places, eps=eps, act_dtype=act_dtype)
    return kernels.store_vectors(
        x.contiguous(),
        weight,
        cos.contiguous(),
        sin.contiguous(),
        cache.data,
        units.contiguous(),
        places.contiguous(),
        rounding=cache.format.rounding.value,
        eps=eps,
    )
