"""`encode_vectors` on a GPU."""

from __future__ import annotations

import torch

from deepinfer.core.cache_spec import KVRounding, VectorFormat
from deepinfer.ops import reference
from tilelang_ops.cache import encode_vectors as kernels


def encode_vectors(x: torch.Tensor, format: VectorFormat) -> torch.Tensor:
    """See `deepinfer.ops.reference.encode_vectors`, whose form is taken for what is not packed."""
    if not format.packed or format.rounding is KVRounding.NONE or format.dim % 32:
        return reference.encode_vectors(x, format)
    return kernels.encode_vectors(x.contiguous(), format.rounding.value)
