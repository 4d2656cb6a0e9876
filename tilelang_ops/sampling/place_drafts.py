"""Where a decode step's rows find what the drafts that they judge were drawn from."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton.language as tl

from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.jit.triton_jit import triton_jit
from tilelang_ops.jit.triton_spec import TritonSpec
from tilelang_ops.sampling.row_rule import INDEX

_NUM_WARPS = 1


@dataclass(frozen=True, slots=True)
class KnownDrafts:
    """Slots of drafts whose distributions are known. Int64, contiguous.

    Attributes:
        owners: [C] sequence of each slot.
        first_indices: [C] output index that its first draft speaks about.
        ids: [C, G] its drafts.
    """

    owners: torch.Tensor
    first_indices: torch.Tensor
    ids: torch.Tensor


@dataclass(frozen=True, slots=True)
class DraftRows:
    """T rows of S sequences, int64, contiguous.

    Attributes:
        token_ids, seqs: [T]; seqs is below 0 for padding.
        first_rows, num_rows: [S].
    """

    token_ids: torch.Tensor
    seqs: torch.Tensor
    first_rows: torch.Tensor
    num_rows: torch.Tensor


@triton_jit(do_not_specialize=["count", "num_drafts", "width", "id_column", "slot_column"])
def place_drafts_kernel(
    token_ids,
    seqs,
    first_rows,
    num_rows,
    rules,
    owners,
    first_indices,
    ids,
    places,
    draft_ids,
    count,
    num_drafts,
    width,
    id_column,
    slot_column,
):
    """Program (row): its draft is the token of the row behind it, if both are of one sequence."""
    row = tl.program_id(0)
    given = tl.load(seqs + row)
    seq = tl.maximum(given, 0)
    depth = row - tl.load(first_rows + seq)
    draft = tl.load(token_ids + tl.minimum(row + 1, count - 1))
    has_draft = (given >= 0) & (depth + 1 < tl.load(num_rows + seq))
    depth = tl.minimum(tl.maximum(depth, 0), num_drafts - 1)
    rule = rules + seq * width
    slot = tl.load(rule + slot_column)
    holder = tl.maximum(slot, 0)
    is_same = tl.load(owners + holder) == tl.load(rule + id_column)
    is_same &= tl.load(first_indices + holder) == tl.load(rule + INDEX)
    is_same &= tl.load(ids + holder * num_drafts + depth) == draft
    is_known = has_draft & (slot >= 0) & is_same
    tl.store(places + row, tl.where(is_known, slot * num_drafts + depth, -1))
    tl.store(draft_ids + row, draft)


def place_drafts(
    rows: DraftRows, rules: torch.Tensor, known: KnownDrafts, *, id_column: int, slot_column: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Place int64 [T] of each row's draft among C * G distributions, -1 where it is not known; that draft int64 [T].

    Args:
        rows: T.
        rules: int64 [S, W] contiguous, the rule of a sequence's first row in its first columns.
        known: at least one draft each.
        id_column, slot_column: of `rules`, with the sequence and its slot, -1 for none.
    """
    places, draft_ids = torch.empty_like(rows.seqs), torch.empty_like(rows.seqs)
    given = (rows.token_ids, rows.seqs, rows.first_rows, rows.num_rows, rules)
    numbers = (len(rows.seqs), known.ids.shape[1], rules.shape[1], id_column, slot_column)
    options = {"num_warps": _NUM_WARPS, "enable_fp_fusion": False}
    if len(places):
        with torch.cuda.device_of(places):
            place_drafts_kernel[(len(places),)](
                *given, known.owners, known.first_indices, known.ids, places, draft_ids, *numbers, **options
            )
    return places, draft_ids


def kernel_specs(sizes: ModelSizes) -> list[TritonSpec]:
    """One for all models."""
    signature = (*["*i64"] * 10, *["i32"] * 5)
    return [TritonSpec("sampling.place_drafts", place_drafts_kernel, signature, {}, _NUM_WARPS)]
