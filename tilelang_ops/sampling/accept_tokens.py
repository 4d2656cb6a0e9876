"""Which of a step's tokens count: those in front of the first wrong draft, and the one there."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton.language as tl

from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.jit.triton_jit import triton_jit
from tilelang_ops.jit.triton_spec import TritonSpec

_NUM_WARPS = 1
_MAX_STOPS = 32


@dataclass(frozen=True, slots=True)
class StepTokens:
    """T rows of S sequences, int64, contiguous.

    Attributes:
        tokens: [T] what every row gives; -1 for one that cannot be sampled: nothing counts from there on.
        token_ids: [T] what stands there.
        first_rows, num_rows: [S] of each sequence.
    """

    tokens: torch.Tensor
    token_ids: torch.Tensor
    first_rows: torch.Tensor
    num_rows: torch.Tensor


@dataclass(frozen=True, slots=True)
class EndRules:
    """Which sequences get tokens, and behind which of these a text ends.

    Attributes:
        values: int64 [S, W] contiguous.
        live_column: of `values`, with 1 for a sequence that gets tokens, else 0.
        stop_column: of `values`, the first with a token behind which the text ends; -1 for none.
        num_stops: columns with such tokens, side by side, at most 32.
    """

    values: torch.Tensor
    live_column: int
    stop_column: int
    num_stops: int


@dataclass(frozen=True, slots=True)
class NewTokens:
    """What is written: rows of the first S sequences. Contiguous.

    Attributes:
        tokens: int64 [., G + 1]; -1 behind the last.
        num_tokens: int64 [.].
        draft_ids: int64 [., G]; all become -1, as no drafts follow yet.
        confidences: float32 [., G]; all become 0.
        columns: float64 [., 3 G + 2], of which the number of tokens and the tokens are written, side by side.
    """

    tokens: torch.Tensor
    num_tokens: torch.Tensor
    draft_ids: torch.Tensor
    confidences: torch.Tensor
    columns: torch.Tensor


@triton_jit(do_not_specialize=["count", "num_drafts", "width", "live_column", "stop_column", "num_stops"])
def accept_tokens_kernel(
    tokens,
    token_ids,
    first_rows,
    num_rows,
    rules,
    new_tokens,
    num_tokens,
    draft_ids,
    confidences,
    columns,
    count,
    num_drafts,
    width,
    live_column,
    stop_column,
    num_stops,
    STOPS: tl.constexpr,
):
    """Program (sequence).

    A row counts while every earlier row of its sequence got the token that stands in the row behind it, and none of
    those ends the text.
    """
    seq = tl.program_id(0).to(tl.int64)
    rule = rules + seq * width
    own_rows = tl.load(num_rows + seq) * tl.load(rule + live_column)
    stop = tl.arange(0, STOPS)
    stop_ids = tl.load(rule + stop_column + stop, mask=stop < num_stops, other=-1)
    first = tl.load(first_rows + seq)
    table = columns + seq * (3 * num_drafts + 2)
    number, is_reached = tl.full((), 0, tl.int64), tl.full((), 1, tl.int32)
    for depth in range(num_drafts + 1):
        place = tl.minimum(first + depth, count - 1)
        token = tl.load(tokens + place)
        counts = (is_reached > 0) & (depth < own_rows) & (token >= 0)
        new = tl.where(counts, token, -1)
        tl.store(new_tokens + seq * (num_drafts + 1) + depth, new)
        tl.store(table + 1 + depth, new.to(tl.float64))
        number += counts.to(tl.int64)
        is_right = token == tl.load(token_ids + tl.minimum(place + 1, count - 1))
        is_end = tl.sum((stop_ids == token).to(tl.int32), axis=0) > 0
        is_reached = (counts & (depth + 1 < own_rows) & is_right & ~is_end).to(tl.int32)
    tl.store(num_tokens + seq, number)
    tl.store(table, number.to(tl.float64))
    for k in range(num_drafts):
        tl.store(draft_ids + seq * num_drafts + k, -1)
        tl.store(confidences + seq * num_drafts + k, 0.0)


def accept_tokens(step: StepTokens, rules: EndRules, new: NewTokens) -> None:
    """Write the new tokens of S sequences, at most G + 1 each."""
    assert rules.num_stops <= _MAX_STOPS, f"{rules.num_stops} stop columns; the kernel reads {_MAX_STOPS}"
    num_seqs, num_drafts = len(rules.values), new.draft_ids.shape[1]
    given = (step.tokens, step.token_ids, step.first_rows, step.num_rows, rules.values)
    written = (new.tokens, new.num_tokens, new.draft_ids, new.confidences, new.columns)
    numbers = (len(step.tokens), num_drafts, rules.values.shape[1])
    places = (rules.live_column, rules.stop_column, rules.num_stops)
    options = {"STOPS": _MAX_STOPS, "num_warps": _NUM_WARPS, "enable_fp_fusion": False}
    if num_seqs and len(step.tokens):
        with torch.cuda.device_of(step.tokens):
            accept_tokens_kernel[(num_seqs,)](*given, *written, *numbers, *places, **options)


def kernel_specs(sizes: ModelSizes) -> list[TritonSpec]:
    """One for all models."""
    signature = (*["*i64"] * 8, "*fp32", "*fp64", *["i32"] * 6)
    return [TritonSpec("sampling.accept_tokens", accept_tokens_kernel, signature, {"STOPS": _MAX_STOPS}, _NUM_WARPS)]
