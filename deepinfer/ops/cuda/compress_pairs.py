"""`compress_pairs` on a GPU."""

from __future__ import annotations

import torch

from deepinfer.ops import reference
from tilelang_ops.compress import compress_pairs as kernels


def compress_pairs(
    new: torch.Tensor, state: torch.Tensor, second: torch.Tensor, carried: torch.Tensor, act_dtype: torch.dtype
) -> torch.Tensor:
    """See `Ops.compress_pairs`; float32 results take the reference's form."""
    if act_dtype is not torch.bfloat16 or new.shape[-1] % 4:
        return reference.compress_pairs(new, state, second, carried, act_dtype)
    return kernels.compress_pairs(new.contiguous(), state.flatten(0, 1), second.contiguous(), carried.contiguous())
