"""Leaves a draft pass's drafts and confidences where the next step, and the host, find them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.jit.triton_jit import triton_jit
from tilelang_ops.jit.triton_spec import TritonSpec

_NUM_WARPS = 1
_LEAST_PLACES = 8


@dataclass(frozen=True, slots=True)
class LeftDrafts:
    """What is written: rows of the first S sequences. Contiguous.

    Attributes:
        draft_ids: int64 [., G].
        confidences: float32 [., G].
        columns: float64 [., 3 G + 2], of which the last 2 G are written: drafts and confidences.
    """

    draft_ids: torch.Tensor
    confidences: torch.Tensor
    columns: torch.Tensor


@triton_jit(do_not_specialize=["num_drafts"])
def leave_drafts_kernel(
    ids,
    scores,
    is_wanted,
    temperatures,
    draft_ids,
    confidences,
    columns,
    num_drafts,
    limit,
    PLACES: tl.constexpr,
):
    """Program (sequence): the logistic function of scores over temperatures, in float64, rounded once."""
    seq = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, PLACES)
    inside, at = k < num_drafts, seq * num_drafts + k
    is_kept = tl.load(is_wanted + seq)
    draft = tl.load(ids + at, mask=inside, other=-1)
    score = tl.load(scores + at, mask=inside, other=0.0).to(tl.float64)
    scaled = score / tl.load(temperatures + k, mask=inside, other=1.0)
    scaled = tl.where(scaled == scaled, scaled, 0.0)
    scaled = tl.minimum(tl.maximum(scaled, -limit), limit)
    confidence = (1.0 / (1.0 + tl.exp(-scaled))).to(tl.float32)
    draft, confidence = tl.where(is_kept, draft, -1), tl.where(is_kept, confidence, 0.0)
    tl.store(draft_ids + at, draft, mask=inside)
    tl.store(confidences + at, confidence, mask=inside)
    table = columns + seq * (3 * num_drafts + 2) + num_drafts + 2 + k
    tl.store(table, draft.to(tl.float64), mask=inside)
    tl.store(table + num_drafts, confidence.to(tl.float64), mask=inside)


def leave_drafts(
    ids: torch.Tensor,
    scores: torch.Tensor,
    is_wanted: torch.Tensor,
    temperatures: torch.Tensor,
    left: LeftDrafts,
    *,
    limit: float,
) -> None:
    """Write drafts, -1 and confidence 0 for a sequence that wants none.

    Args:
        ids: int64 [S, G] contiguous.
        scores: float32 [S, G] contiguous, before temperature and sigmoid; NaN counts as 0.
        is_wanted: bool [S].
        temperatures: float64 [G].
        left: G drafts a sequence.
        limit: of a score over its temperature, in magnitude; exact in float32.
    """
    num_seqs, num_drafts = ids.shape
    options = {"PLACES": _places(num_drafts), "num_warps": _NUM_WARPS, "enable_fp_fusion": False}
    given, written = (ids, scores, is_wanted, temperatures), (left.draft_ids, left.confidences, left.columns)
    if num_seqs:
        with torch.cuda.device_of(ids):
            leave_drafts_kernel[(num_seqs,)](*given, *written, num_drafts, limit, **options)


def _places(num_drafts: int) -> int:
    return max(_LEAST_PLACES, int(triton.next_power_of_2(num_drafts)))


def kernel_specs(sizes: ModelSizes) -> list[TritonSpec]:
    """One for all but very many drafts; none without."""
    if not sizes.num_drafts:
        return []
    signature = ("*i64", "*fp32", "*u1", "*fp64", "*i64", "*fp32", "*fp64", "i32", "fp32")
    statics = {"PLACES": _places(sizes.num_drafts)}
    return [TritonSpec("sampling.leave_drafts", leave_drafts_kernel, signature, statics, _NUM_WARPS)]
