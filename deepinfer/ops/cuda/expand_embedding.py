"""`expand_embedding` on a GPU."""

from __future__ import annotations

import torch

from deepinfer.ops import reference
from tilelang_ops.hyper_connection import expand_embedding as kernels


def expand_embedding(
    token_ids: torch.Tensor, table: torch.Tensor, num_streams: int, out_dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """See `Ops.expand_embedding`; float32 tensors take the reference's form."""
    if table.dtype is not torch.bfloat16 or out_dtype is not torch.bfloat16 or table.shape[1] % 8:
        return reference.expand_embedding(token_ids, table, num_streams, out_dtype)
    return kernels.expand_embedding(token_ids.contiguous(), table, num_streams)
