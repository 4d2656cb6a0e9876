"""Attention of every row over vectors: its window and its selected entries."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from deepinfer.ops.reference.bmm_rows import bmm_rows
from deepinfer.ops.reference.exact_math import exp
from deepinfer.ops.reference.matmul_grouped import TILE_ROWS, align_columns, aligned
from deepinfer.ops.reference.tree_sum import tree_sum

_CHUNK_ELEMENTS = 1 << 19  # gathered key=value elements at a time, at least one row


def attend_vectors(
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
    """One softmax over window, entries and a sink logit; keys are also the values (spec/model.md 4.3, 4.4).

    Every row is a product of its own with the shape [H, d] x [d, W] (and K), absent places included, so a row's bits
    depend on its own operands only. What absent places hold (even NaN) has no effect.

    Args:
        q: bf16 or float32 [T, H, d].
        window_kv: float32 [M, d].
        window_index: int64 [T, W] rows of window_kv, -1 for absent.
        entries: float32 [T, K, d] or None.
        entry_valid: bool [T, K]; None when all are.
        sink: float32 [H] logits, not scaled.
        scale: factor of q . k.
        out_dtype: bf16 or float32.

    Returns:
        out_dtype [T, H, d].
    """
    num_rows, dim = q.shape[0], q.shape[2]
    # Absent places read an extra row of zeros.
    padded_kv = align_columns(torch.cat((window_kv, window_kv.new_zeros(1, dim))))
    window_index = _pad_places(window_index, -1)
    valid = window_index >= 0
    index = torch.where(valid, window_index, window_kv.shape[0])
    width, num_entries = window_index.shape[1], 0 if entries is None else entries.shape[1]
    chunk = max(1, _CHUNK_ELEMENTS // ((width + num_entries) * dim))
    outputs = []
    for begin in range(0, num_rows, chunk):
        rows = slice(begin, begin + chunk)
        window = padded_kv.index_select(0, index[rows].reshape(-1)).view(-1, width, padded_kv.shape[1])
        parts = [(window, valid[rows])]
        if entries is not None:
            parts.append(_masked_entries(entries[rows], None if entry_valid is None else entry_valid[rows]))
        out = _attend(align_columns(q[rows].to(torch.float32)), parts, sink, scale)
        outputs.append(out[:, :, :dim].to(out_dtype))
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs) if outputs else q.to(out_dtype)


def _pad_places(places: torch.Tensor, value: int) -> torch.Tensor:
    """[n, L] with L padded to a multiple of 16: rows of other lengths are unaligned and may take another code path."""
    padding = -places.shape[1] % TILE_ROWS
    return F.pad(places, (0, padding), value=value) if padding else places


def _masked_entries(entries: torch.Tensor, valid: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Entries with zeros at the invalid ones, and the validity, places padded."""
    if valid is None:
        valid = torch.ones(entries.shape[:2], dtype=torch.bool, device=entries.device)
    if not bool(valid.all()):
        entries = torch.where(valid.unsqueeze(-1), entries, 0.0)
    padding = -entries.shape[1] % TILE_ROWS
    if padding:
        entries = F.pad(entries, (0, 0, 0, padding))
    return aligned(align_columns(entries)), _pad_places(valid, 0)


def _attend(
    q: torch.Tensor, parts: list[tuple[torch.Tensor, torch.Tensor]], sink: torch.Tensor, scale: float
) -> torch.Tensor:
    """Attention of q [n, H, d] over parts of (key=value [n, L, d], valid [n, L]); absent parts add exact zeros."""
    q = aligned(q)
    logits = torch.cat([bmm_rows(q, kv.transpose(1, 2)) for kv, _ in parts], dim=2).mul_(scale)
    valid = torch.cat([valid for _, valid in parts], dim=1)
    logits.masked_fill_(~valid.unsqueeze(1), -torch.inf)
    maximum = torch.maximum(logits.amax(-1), sink)
    weights = exp(logits.sub_(maximum.unsqueeze(-1)))
    total = tree_sum(weights).add_(exp(sink - maximum))
    out, begin = torch.zeros_like(q), 0
    for kv, _ in parts:
        out.add_(bmm_rows(aligned(weights[:, :, begin : begin + kv.shape[1]]), kv))
        begin += kv.shape[1]
    return out.div_(total.unsqueeze(-1))
