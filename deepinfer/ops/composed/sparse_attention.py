"""Attention of every row over its window and its selected entries, as the caches store them."""

from __future__ import annotations

import torch

from deepinfer.core.cache_spec import VectorFormat
from deepinfer.core.paged_entries import PagedEntries
from deepinfer.ops.primitive_ops import PrimitiveOps

# Decoded entries of one row chunk stay below this, whatever the step's size.
ENTRY_BYTES_PER_CHUNK = 64 * 2**20


def sparse_attention(
    ops: PrimitiveOps,
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
    """One softmax over window, picked entries and a sink logit; keys are also the values (spec/model.md 4.3, 4.4).

    What absent places hold (even NaN) has no effect.

    Args:
        ops: has `decode_vectors` and `attend_vectors`.
        q: bf16 or float32 [T, H, d].
        window: uint8 [M, bytes] stored vectors.
        window_index: int64 [T, W] rows of `window`, -1 for absent.
        entries: None for a layer without them.
        picks: int64 [T, K] entries of each row, -1 for absent; None with `entries`.
        sink: float32 [H] logits, not scaled.
        window_format: of `window`.
        scale: factor of q . k.
        out_dtype: bf16 or float32.

    Returns:
        out_dtype [T, H, d].
    """
    window, window_index = _compact(window, window_index)
    decoded = ops.decode_vectors(window, window_format)
    if entries is None or picks is None:
        return ops.attend_vectors(q, decoded, window_index, None, None, sink, scale=scale, out_dtype=out_dtype)
    chunk = max(1, ENTRY_BYTES_PER_CHUNK // (picks.shape[1] * q.shape[2] * 4))
    parts = []
    for begin in range(0, max(q.shape[0], 1), chunk):
        rows = slice(begin, begin + chunk)
        data = entries.gather(entries.first_block[rows, None], picks[rows].clamp(min=0))
        vectors, valid = ops.decode_vectors(data, entries.cache.format), picks[rows] >= 0
        index = window_index[rows]
        parts.append(
            ops.attend_vectors(q[rows], decoded, index, vectors, valid, sink, scale=scale, out_dtype=out_dtype)
        )
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _compact(window: torch.Tensor, window_index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The same windows with every place of theirs behind each other, where that is less than all vectors.

    Rings are handed in whole, whatever part of them the step's rows look at.
    """
    if window.shape[0] <= window_index.numel():
        return window, window_index
    numbers = torch.arange(window_index.numel(), device=window_index.device).view(window_index.shape)
    return window[window_index.clamp(min=0).view(-1)], torch.where(window_index >= 0, numbers, -1)
