"""`decode_vectors` on a GPU."""

from __future__ import annotations

import torch

from deepinfer.core.cache_spec import KVRounding, VectorFormat
from deepinfer.ops import reference
from tilelang_ops.cache import decode_vectors as kernels


def decode_vectors(data: torch.Tensor, format: VectorFormat) -> torch.Tensor:
    """See `deepinfer.ops.reference.decode_vectors`, whose form is taken for what is not packed."""
    if not format.packed or format.rounding is KVRounding.NONE or format.dim % 32:
        return reference.decode_vectors(data, format)
    rows = data.reshape(-1, format.num_bytes).contiguous()
    return kernels.decode_vectors(rows, format.dim, format.rounding.value).view(*data.shape[:-1], format.dim)
