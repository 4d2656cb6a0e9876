"""Rows of a decode step from its sequences' numbers of rows, and what the step after it continues from."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton.language as tl

from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.jit.triton_jit import triton_jit
from tilelang_ops.jit.triton_spec import TritonSpec
from tilelang_ops.step.continue_seqs import PlanFields, StepBefore, line_places

_NUM_WARPS = 4
_BLOCK = 512


@dataclass(frozen=True, slots=True)
class StepRows:
    """T rows and S sequences, S <= T; int64, contiguous.

    Attributes:
        token_ids, positions, seqs, state_slots, first_blocks: [T], written; seqs is -1 for padding.
        first_rows, seq_slots: [S], written.
        num_rows, context_lens: [S], known.
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    seqs: torch.Tensor
    state_slots: torch.Tensor
    first_blocks: torch.Tensor
    first_rows: torch.Tensor
    seq_slots: torch.Tensor
    num_rows: torch.Tensor
    context_lens: torch.Tensor


@triton_jit
def _sequence_of(num_rows, row, num_seqs, BLOCK: tl.constexpr):
    """(sequence of a row, first row of that, first row of sequence number `row`, rows of all), int32.

    A row behind the last is one of the sequence that the last belongs to.
    """
    total = tl.full((), 0, tl.int32)
    for start in range(0, num_seqs, BLOCK):
        place = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(num_rows + place, mask=place < num_seqs, other=0).to(tl.int32), axis=0)
    of = tl.minimum(row, tl.maximum(total - 1, 0))
    running, seq = tl.full((), 0, tl.int32), tl.full((), 0, tl.int32)
    first, own_first = tl.full((), 0, tl.int32), tl.full((), 0, tl.int32)
    for start in range(0, num_seqs, BLOCK):
        place = start + tl.arange(0, BLOCK)
        counts = tl.load(num_rows + place, mask=place < num_seqs, other=0).to(tl.int32)
        is_before = (running + tl.cumsum(counts, axis=0) <= of) & (place < num_seqs)
        seq += tl.sum(is_before.to(tl.int32), axis=0)
        first += tl.sum(tl.where(is_before, counts, 0), axis=0)
        own_first += tl.sum(tl.where(place < row, counts, 0), axis=0)
        running += tl.sum(counts, axis=0)
    return tl.minimum(seq, num_seqs - 1), first, own_first, total


@triton_jit(do_not_specialize=["num_seqs", "num_drafts", "num_lookback"])
def fill_rows_kernel(
    lines,
    slots,
    blocks,
    num_rows,
    contexts,
    token_ids,
    positions,
    seqs,
    row_slots,
    row_blocks,
    offsets,
    ngrams,
    first_rows,
    seq_slots,
    old_contexts,
    firsts,
    lookback,
    num_seqs,
    num_drafts,
    num_lookback,
    PLACES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Program (row); those of the first rows also write what there is of the sequence with their number."""
    row = tl.program_id(0)
    seq, first, own_first, total = _sequence_of(num_rows, row, num_seqs, BLOCK)
    offset = tl.minimum(row, tl.maximum(total - 1, 0)) - first
    width = num_lookback + 1 + num_drafts
    place = tl.arange(0, PLACES)
    newest = lines + seq.to(tl.int64) * width + num_lookback + offset
    # All loads stand before the first store, which would wait for its value.
    token, context = tl.load(newest), tl.load(contexts + seq)
    ngram = tl.load(newest - place, mask=place <= num_lookback, other=0)
    slot, block = tl.load(slots + seq), tl.load(blocks + seq)
    is_seq = row < num_seqs
    own = lines + row.to(tl.int64) * width + num_lookback
    own_slot, own_context = tl.load(slots + row, mask=is_seq), tl.load(contexts + row, mask=is_seq)
    own_token = tl.load(own, mask=is_seq)
    back = tl.load(own - 1 - place, mask=is_seq & (place < num_lookback), other=0)
    tl.store(token_ids + row, token)
    tl.store(positions + row, context + offset)
    tl.store(seqs + row, tl.where(row < total, seq, -1).to(tl.int64))
    tl.store(row_slots + row, slot)
    tl.store(row_blocks + row, block)
    tl.store(offsets + row, offset.to(tl.int64))
    ngram_place = ngrams + row.to(tl.int64) * (num_lookback + 1) + place
    tl.store(ngram_place, ngram, mask=(place <= num_lookback) & (num_lookback > 0))
    tl.store(first_rows + row, own_first.to(tl.int64), mask=is_seq)
    tl.store(seq_slots + row, own_slot, mask=is_seq)
    tl.store(old_contexts + row, own_context, mask=is_seq)
    tl.store(firsts + row, own_token, mask=is_seq)
    back_place = lookback + row.to(tl.int64) * num_lookback + place
    tl.store(back_place, back, mask=is_seq & (place < num_lookback))


def fill_rows(
    plan: PlanFields, lines: torch.Tensor, rows: StepRows, before: StepBefore
) -> tuple[torch.Tensor, torch.Tensor]:
    """Offsets int64 [T] of the rows in their sequences, and n-grams int64 [T, L + 1] (L = 0: [T, 0]).

    Args:
        plan: S sequences.
        lines: int64 [S, L + 1 + G] contiguous: their look-back, newest token and drafts.
        rows: filled.
        before: context_lens, first_tokens and lookback of the first S become those of this step.
    """
    (count,), num_seqs, num_lookback = rows.token_ids.shape, len(lines), before.lookback.shape[1]
    offsets = torch.empty(count, dtype=torch.int64, device=lines.device)
    ngrams = torch.empty((count, num_lookback + 1 if num_lookback else 0), dtype=torch.int64, device=lines.device)
    given = (lines, plan.state_slots, plan.first_blocks, rows.num_rows, rows.context_lens)
    of_rows = (rows.token_ids, rows.positions, rows.seqs, rows.state_slots, rows.first_blocks, offsets, ngrams)
    of_seqs = (rows.first_rows, rows.seq_slots, before.context_lens, before.first_tokens, before.lookback)
    numbers = (num_seqs, before.draft_ids.shape[1], num_lookback)
    options = {"num_warps": _NUM_WARPS, "enable_fp_fusion": False}
    statics = {"PLACES": line_places(lines.shape[1]), "BLOCK": _BLOCK}
    if count:
        with torch.cuda.device_of(lines):
            fill_rows_kernel[(count,)](*given, *of_rows, *of_seqs, *numbers, **statics, **options)
    return offsets, ngrams


def kernel_specs(sizes: ModelSizes) -> list[TritonSpec]:
    """One for all but very long lines."""
    lookback = max(sizes.engram_max_ngram_size - 1, 0)
    statics = {"PLACES": line_places(lookback + 1 + sizes.num_drafts), "BLOCK": _BLOCK}
    return [TritonSpec("step.fill_rows", fill_rows_kernel, (*["*i64"] * 17, "i32", "i32", "i32"), statics, _NUM_WARPS)]
