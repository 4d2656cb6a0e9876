"""Shares out the rows that a decode step has for drafts: to the best rates, ties to the earlier sequence and draft."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.jit.triton_jit import triton_jit
from tilelang_ops.jit.triton_spec import TritonSpec

_NUM_WARPS = 4
_BLOCK = 512
_LEAST_RANKS = 8


@triton_jit(do_not_specialize=["num_seqs", "num_drafts"])
def share_rows_kernel(rates, num_draft_rows, num_rows, num_seqs, num_drafts, RANKS: tl.constexpr, BLOCK: tl.constexpr):
    """Program (sequence): the rank of a draft is the number of those in front of it."""
    seq = tl.program_id(0)
    number = tl.arange(0, RANKS)
    own_place = seq * num_drafts + number
    own = tl.load(rates + own_place, mask=number < num_drafts, other=-1.0)
    rank = tl.zeros([RANKS], tl.int32)
    for start in range(0, num_seqs * num_drafts, BLOCK):
        place = start + tl.arange(0, BLOCK)
        rate = tl.load(rates + place, mask=place < num_seqs * num_drafts, other=-2.0)
        is_equal = (rate[None, :] == own[:, None]) & (place[None, :] < own_place[:, None])
        rank += tl.sum(((rate[None, :] > own[:, None]) | is_equal).to(tl.int32), axis=1)
    gets_row = (own >= 0.0) & (rank < tl.load(num_draft_rows))
    count = tl.sum(gets_row.to(tl.int64), axis=0)
    tl.store(num_rows + seq, tl.where(tl.load(num_rows + seq) > 0, count + 1, 0))


def share_rows(rates: torch.Tensor, num_draft_rows: torch.Tensor, num_rows: torch.Tensor) -> None:
    """Write int64 num_rows [S], where it is above 0: one more than the drafts that get a row.

    Args:
        rates: float32 [S, G] contiguous, -1 for a draft that wants none.
        num_draft_rows: int64 [1] rows for drafts.
        num_rows: int64 [S].
    """
    num_seqs, num_drafts = rates.shape
    options = {"RANKS": _ranks(num_drafts), "BLOCK": _BLOCK, "num_warps": _NUM_WARPS, "enable_fp_fusion": False}
    if num_seqs:
        with torch.cuda.device_of(rates):
            share_rows_kernel[(num_seqs,)](rates, num_draft_rows, num_rows, num_seqs, num_drafts, **options)


def _ranks(num_drafts: int) -> int:
    return max(_LEAST_RANKS, triton.next_power_of_2(num_drafts))


def kernel_specs(sizes: ModelSizes) -> list[TritonSpec]:
    """One for all but very many drafts; none without."""
    if not sizes.num_drafts:
        return []
    statics = {"RANKS": _ranks(sizes.num_drafts), "BLOCK": _BLOCK}
    return [
        TritonSpec("step.share_rows", share_rows_kernel, ("*fp32", "*i64", "*i64", "i32", "i32"), statics, _NUM_WARPS)
    ]
