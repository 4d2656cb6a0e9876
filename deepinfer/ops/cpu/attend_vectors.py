"""Attention of every row over vectors: its window and its selected entries."""

from __future__ import annotations

import torch

from deepinfer._C import cpu
from deepinfer.ops.cpu.floats import as_floats, as_int64, is_low_precision


def attend_vectors(
    context: cpu.Context,
    q: torch.Tensor,
    window_kv: torch.Tensor,
    window_index: torch.Tensor,
    entries: torch.Tensor | None,
    entry_valid: torch.Tensor | None,
    sink: torch.Tensor,
    *,
    scale: float,
    out_dtype: torch.dtype,
) -> torch.Tensor:
    """See `deepinfer.ops.reference.attend_vectors`. Keys of a row are read in the order of its present places."""
    num_rows, num_heads, dim = q.shape
    q, window_kv, sink, window_index = as_floats(q), as_floats(window_kv), as_floats(sink), as_int64(window_index)
    num_picks = 0 if entries is None else entries.shape[1]
    places = torch.arange(num_picks).expand(num_rows, -1)
    picks = as_int64(places if entry_valid is None else torch.where(entry_valid, places, -1))
    vectors = None if entries is None else as_floats(entries)
    out = torch.empty_like(q)
    cpu.sparse_attention(
        context,
        q=q.data_ptr(),
        window=window_kv.data_ptr(),
        window_index=window_index.data_ptr(),
        entries=0 if vectors is None else vectors.data_ptr(),
        picks=picks.data_ptr(),
        sink=sink.data_ptr(),
        out=out.data_ptr(),
        num_rows=num_rows,
        num_heads=num_heads,
        dim=dim,
        window_size=window_index.shape[1],
        num_picks=num_picks,
        scale=scale,
        rounds_bf16=is_low_precision(out_dtype),
    )
    return out.to(out_dtype)
