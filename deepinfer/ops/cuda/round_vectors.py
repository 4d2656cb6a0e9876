"""`round_vectors` on a GPU."""

from __future__ import annotations

import torch

from deepinfer.core.cache_spec import KVRounding
from deepinfer.ops import reference
from tilelang_ops.cache import round_vectors as kernels


def round_vectors(x: torch.Tensor, rounding: KVRounding) -> torch.Tensor:
    """See `Ops.round_vectors`; bit-equal to the reference, whose form is taken for widths not in whole groups."""
    if rounding is KVRounding.NONE or x.shape[-1] % 32:
        return reference.round_vectors(x, rounding)
    return kernels.round_vectors(x.reshape(-1, x.shape[-1]).contiguous(), rounding.value).view(x.shape)
