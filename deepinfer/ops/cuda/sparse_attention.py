"""`sparse_attention` on a GPU."""

from __future__ import annotations

import torch

from deepinfer.core.cache_spec import KVRounding, VectorFormat
from deepinfer.core.paged_entries import PagedEntries
from deepinfer.ops import reference
from tilelang_ops.attention.sparse_attention import has_kernel
from tilelang_ops.attention.sparse_attention import sparse_attention as attend
from tilelang_ops.jit.arch import arch_of

_ENTRY_ROUNDINGS = (KVRounding.FP4_GROUP16, KVRounding.FP8_GROUP32)


def sparse_attention(
    batch_invariant: bool,
    q: torch.Tensor,
    window: torch.Tensor,
    window_index: torch.Tensor,
    entries: PagedEntries | None,
    picks: torch.Tensor | None,
    sink: torch.Tensor,
    *,
    window_format: VectorFormat,
    scale: float,
    out_dtype: torch.dtype,
) -> torch.Tensor:
    """See `Ops.sparse_attention`; float32 activations, vectors that are not packed and head sizes without a kernel take
    the reference's form.
    """
    is_packed = window_format.packed and window_format.rounding is KVRounding.FP8_GROUP32
    if entries is not None:
        is_packed &= entries.cache.format.packed and entries.cache.format.rounding in _ENTRY_ROUNDINGS
    is_bf16 = q.dtype is torch.bfloat16 and out_dtype is torch.bfloat16
    if not (is_packed and is_bf16 and has_kernel(q.shape[2], arch_of(q.device))):
        return reference.sparse_attention(
            q,
            window,
            window_index,
            entries,
            picks,
            sink,
            window_format=window_format,
            scale=scale,
            out_dtype=out_dtype,
        )
    return attend(
        q.contiguous(),
        window.contiguous(),
        window_index.contiguous(),
        None if entries is None else entries.cache.data,
        None if entries is None else entries.block_ids,
        None if entries is None else entries.first_block,
        None if picks is None else picks.contiguous(),
        sink,
        entry_layout=(window_format if entries is None else entries.cache.format).rounding.value,
        scale=scale,
        batch_invariant=batch_invariant,
    )
