"""A decode plan's sequences, each continued by what the step before gave it: text, context, drafts worth a row."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.jit.triton_jit import triton_jit
from tilelang_ops.jit.triton_spec import TritonSpec

_NUM_WARPS = 1
_LEAST_PLACES = 16


@dataclass(frozen=True, slots=True)
class PlanFields:
    """A plan of S sequences on the device, contiguous; int64 but for the factors.

    Attributes:
        remap: [S] a sequence's place in the step before, or -1.
        num_rows, context_lens, max_lens, draft_caps, state_slots, first_blocks: [S].
        lines: [S, L + 1 + G] look-back with the nearest token last, newest token, drafts; -1 for none.
        rate_factors: float32 [G].
    """

    remap: torch.Tensor
    num_rows: torch.Tensor
    context_lens: torch.Tensor
    max_lens: torch.Tensor
    draft_caps: torch.Tensor
    state_slots: torch.Tensor
    first_blocks: torch.Tensor
    lines: torch.Tensor
    rate_factors: torch.Tensor


@dataclass(frozen=True, slots=True)
class StepBefore:
    """What the step before left, contiguous, int64 but for the confidences; rows as many as any step has sequences.

    Attributes:
        tokens: [., G + 1] new ones; -1 behind the last.
        num_tokens: [.].
        draft_ids: [., G]; -1 for none.
        confidences: float32 [., G].
        context_lens, first_tokens: [.] where its rows began.
        lookback: [., L] tokens in front of them, nearest first.
    """

    tokens: torch.Tensor
    num_tokens: torch.Tensor
    draft_ids: torch.Tensor
    confidences: torch.Tensor
    context_lens: torch.Tensor
    first_tokens: torch.Tensor
    lookback: torch.Tensor


@triton_jit
def _line_of(
    tokens,
    drafts,
    firsts,
    lookback,
    given,
    is_matched,
    previous,
    num_new,
    num_drafts,
    num_lookback,
    PLACES: tl.constexpr,
):
    """Look-back, newest token and drafts [PLACES], zeros behind them."""
    place = tl.arange(0, PLACES)
    at = num_new + place  # in the text of the step before: its look-back, first token, new tokens
    is_text = is_matched & (place <= num_lookback)
    is_draft = is_matched & (place > num_lookback) & (place < num_lookback + 1 + num_drafts)
    width = num_lookback + 1 + num_drafts
    back = lookback + previous * num_lookback + (num_lookback - 1 - at)
    new = tokens + previous * (num_drafts + 1) + (at - num_lookback - 1)
    draft = drafts + previous * num_drafts + (place - num_lookback - 1)
    # At each place one of these is not masked.
    old = tl.load(back, mask=is_text & (at < num_lookback), other=0)
    first = tl.load(firsts + previous + at * 0, mask=is_text & (at == num_lookback), other=0)
    following = tl.load(new, mask=is_text & (at > num_lookback), other=0)
    guess = tl.load(draft, mask=is_draft, other=0)
    known = tl.load(given + place, mask=(place < width) & ~is_matched, other=0)
    return old + first + following + guess + known


@triton_jit(do_not_specialize=["num_drafts", "num_lookback", "num_ranked"])
def continue_seqs_kernel(
    remap,
    given_rows,
    given_contexts,
    max_lens,
    draft_caps,
    given_lines,
    rate_factors,
    tokens,
    num_tokens,
    drafts,
    confidences,
    old_contexts,
    firsts,
    lookback,
    lines,
    contexts,
    num_rows,
    rates,
    num_drafts,
    num_lookback,
    num_ranked,
    PLACES: tl.constexpr,
):
    """Program (sequence)."""
    seq = tl.program_id(0).to(tl.int64)
    # All loads stand before the first store, which would wait for its value.
    before, own_rows, context = tl.load(remap + seq), tl.load(given_rows + seq), tl.load(given_contexts + seq)
    max_len, cap = tl.load(max_lens + seq), tl.load(draft_caps + seq)
    is_matched = before >= 0
    previous = tl.maximum(before, 0)
    num_new, old_context = tl.load(num_tokens + previous), tl.load(old_contexts + previous)
    num_new = tl.where(is_matched, num_new, 0)
    context = tl.where(is_matched, old_context + num_new, context)
    width = num_lookback + 1 + num_drafts
    given = given_lines + seq * width
    line = _line_of(
        tokens, drafts, firsts, lookback, given, is_matched, previous, num_new, num_drafts, num_lookback, PLACES
    )
    place = tl.arange(0, PLACES)
    number = place - num_lookback - 1
    is_missing = (number >= 0) & (number < num_drafts) & (line < 0)
    leading = tl.min(tl.where(is_missing, number, num_drafts), axis=0).to(tl.int64)
    room = tl.maximum(max_len - context - 2, 0)
    continued = tl.where(num_new > 0, tl.minimum(tl.minimum(leading, cap), room), 0)
    usable = tl.where(is_matched, continued, own_rows - 1)
    tl.store(lines + seq * width + place, line, mask=place < width)
    tl.store(contexts + seq, context)
    tl.store(num_rows + seq, tl.where(own_rows > 0, usable + 1, 0))
    product, limit = tl.full((), 1.0, tl.float32), tl.full((), 1.0, tl.float32)
    for k in range(num_ranked):
        confidence = tl.load(confidences + previous * num_drafts + k)
        confidence = tl.where(confidence == confidence, confidence, 0.0)
        product = product * tl.minimum(tl.maximum(confidence, 0.0), 1.0)
        limit = tl.minimum(limit, tl.minimum(product * tl.load(rate_factors + k), 1.0))
        is_wanted = (own_rows > 0) & (k < usable)
        # Drafts that the plan has decided about are worth more than any probability, those without a wish less.
        tl.store(rates + seq * num_drafts + k, tl.where(is_wanted, tl.where(is_matched, limit, 2.0), -1.0))


def continue_seqs(
    plan: PlanFields, before: StepBefore, contexts: torch.Tensor, num_rows: torch.Tensor, *, ranks: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Lines int64 [S, L + 1 + G] and, with `ranks`, rates float32 [S, G]: -1 of a draft that wants no row.

    Args:
        plan: S sequences.
        before: the step that they may continue.
        contexts, num_rows: int64 [S], written: tokens in the caches, and rows, every draft that wants one included.
        ranks: whether rates are wanted.
    """
    num_drafts, num_lookback, device = before.draft_ids.shape[1], before.lookback.shape[1], contexts.device
    lines = torch.empty(plan.lines.shape, dtype=torch.int64, device=device)
    rates = torch.empty((len(contexts), num_drafts), dtype=torch.float32, device=device)
    of_plan = (plan.remap, plan.num_rows, plan.context_lens, plan.max_lens, plan.draft_caps, plan.lines)
    left = (before.tokens, before.num_tokens, before.draft_ids, before.confidences)
    began = (before.context_lens, before.first_tokens, before.lookback)
    numbers = (num_drafts, num_lookback, num_drafts if ranks else 0)
    options = {"PLACES": line_places(lines.shape[1]), "num_warps": _NUM_WARPS, "enable_fp_fusion": False}
    arguments = (*of_plan, plan.rate_factors, *left, *began, lines, contexts, num_rows, rates, *numbers)
    if len(contexts):
        with torch.cuda.device_of(contexts):
            continue_seqs_kernel[(len(contexts),)](*arguments, **options)
    return lines, rates


def line_places(width: int) -> int:
    """Size of a vector over a line's tokens."""
    return max(_LEAST_PLACES, triton.next_power_of_2(width))


def kernel_specs(sizes: ModelSizes) -> list[TritonSpec]:
    """One for all but very long lines."""
    integers, lookback = "*i64", max(sizes.engram_max_ngram_size - 1, 0)
    signature = (*[integers] * 6, "*fp32", *[integers] * 3, "*fp32", *[integers] * 6, "*fp32", "i32", "i32", "i32")
    statics = {"PLACES": line_places(lookback + 1 + sizes.num_drafts)}
    return [TritonSpec("step.continue_seqs", continue_seqs_kernel, signature, statics, _NUM_WARPS)]
