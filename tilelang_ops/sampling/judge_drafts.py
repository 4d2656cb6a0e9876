"""Rejection sampling: accepts a draft or draws from the residual."""

from __future__ import annotations

import torch
import triton.language as tl

from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.jit.triton_jit import triton_jit
from tilelang_ops.jit.triton_spec import TritonSpec
from tilelang_ops.sampling.fixed_weight import HIGHEST
from tilelang_ops.sampling.row_rule import ACCEPT, RESIDUAL, random_word, stream

_BLOCK = 4096  # weights worked on at once
_NUM_WARPS = 8
_ACCEPT = tl.constexpr(stream(ACCEPT))
_RESIDUAL = tl.constexpr(stream(RESIDUAL))
_COIN = tl.constexpr(2.0**-53)  # a float64 holds 53 bits
_ONE = tl.constexpr(2.0**40)


@triton_jit
def _residual(target, draft, ids, num_ids, target_sum, draft_sum):
    """max(q - p, 0) float64 of probabilities q and p."""
    q = tl.load(target + ids, mask=ids < num_ids, other=0).to(tl.float64) / target_sum
    p = tl.load(draft + ids, mask=ids < num_ids, other=0.0).to(tl.int64).to(tl.float64) / draft_sum
    difference = q - p
    return tl.where(difference > 0.0, difference, 0.0)


@triton_jit(do_not_specialize=["num_ids"])
def judge_drafts_kernel(target_weights, draft_weights, places, draft_ids, rules, tokens, num_ids, BLOCK: tl.constexpr):
    """Program (row): four passes over its weights, for the sums, the largest residual, its sum, and the draw."""
    row = tl.program_id(0)
    place = tl.load(places + row)
    if place < 0:
        return
    target = target_weights + row.to(tl.int64) * num_ids
    draft = draft_weights + place * num_ids
    target_total, draft_total = tl.full((), 0, tl.int64), tl.full((), 0, tl.int64)
    for start in range(0, num_ids, BLOCK):
        ids = start + tl.arange(0, BLOCK)
        target_total += tl.sum(tl.load(target + ids, mask=ids < num_ids, other=0), axis=0)
        draft_total += tl.sum(tl.load(draft + ids, mask=ids < num_ids, other=0.0).to(tl.int64), axis=0)
    target_sum, draft_sum = target_total.to(tl.float64), draft_total.to(tl.float64)
    own = tl.load(draft_ids + row)
    q = tl.load(target + own).to(tl.float64) / target_sum
    p = tl.load(draft + own).to(tl.int64).to(tl.float64) / draft_sum
    uniform = (random_word(rules, row, 0, _ACCEPT) >> 11).to(tl.float64) * _COIN
    if uniform < q / p:
        tl.store(tokens + row, own)
    else:
        largest, most, likeliest = tl.full((), 0.0, tl.float64), tl.full((), -1, tl.int64), 0
        for start in range(0, num_ids, BLOCK):
            ids = start + tl.arange(0, BLOCK)
            largest = tl.maximum(largest, tl.max(_residual(target, draft, ids, num_ids, target_sum, draft_sum), axis=0))
            weights = tl.load(target + ids, mask=ids < num_ids, other=-1)
            chunk_most = tl.max(weights, axis=0)
            lowest = tl.min(tl.where(weights == chunk_most, ids, HIGHEST), axis=0)
            likeliest = tl.where(chunk_most > most, lowest, likeliest)
            most = tl.maximum(most, chunk_most)
        token = tl.where(largest > 0.0, -1, likeliest)  # rounding left no residual: the likeliest token
        scale = tl.where(largest > 0.0, largest, 1.0)
        total = tl.full((), 0, tl.int64)
        for start in range(0, num_ids, BLOCK):
            ids = start + tl.arange(0, BLOCK)
            residual = _residual(target, draft, ids, num_ids, target_sum, draft_sum)
            total += tl.sum((residual / scale * _ONE).to(tl.int64), axis=0)
        word = random_word(rules, row, 0, _RESIDUAL)
        place, running = tl.umulhi(word, total.to(tl.uint64)).to(tl.int64), tl.full((), 0, tl.int64)
        for start in range(0, num_ids, BLOCK):
            ids = start + tl.arange(0, BLOCK)
            residual = _residual(target, draft, ids, num_ids, target_sum, draft_sum)
            sums = running + tl.cumsum((residual / scale * _ONE).to(tl.int64), axis=0)
            first = tl.min(tl.where(sums > place, ids, HIGHEST), axis=0)
            token = tl.where((token < 0) & (first < HIGHEST), first, token)
            running = tl.max(sums, axis=0)
        tl.store(tokens + row, token.to(tl.int64))


def judge_drafts(
    target_weights: torch.Tensor,
    draft_weights: torch.Tensor,
    places: torch.Tensor,
    draft_ids: torch.Tensor,
    rules: torch.Tensor,
    tokens: torch.Tensor,
) -> None:
    """Write the draft where it is accepted, else a draw from the residual, or the likeliest token where none is left.

    Args:
        target_weights: int64 [n, V] contiguous, unnormalised; each row that judges has a positive sum.
        draft_weights: float32 [m, V] contiguous, whole numbers; so has each that is looked at.
        places: int64 [n] row's place in draft_weights, -1 for a row that has nothing to judge and is left as it is.
        draft_ids: int64 [n]; draft_weights is positive there.
        rules: int64 [n, 7], see `row_rule`; keys of the coin and of the draw.
        tokens: int64 [n]; written.
    """
    if len(draft_ids):
        inputs = (target_weights, draft_weights, places, draft_ids, rules)
        options = {"num_warps": _NUM_WARPS, "enable_fp_fusion": False}
        with torch.cuda.device_of(target_weights):
            judge_drafts_kernel[(len(draft_ids),)](*inputs, tokens, target_weights.shape[1], BLOCK=_BLOCK, **options)


def kernel_specs(sizes: ModelSizes) -> list[TritonSpec]:
    """One for all vocabularies."""
    signature = ("*i64", "*fp32", "*i64", "*i64", "*i64", "*i64", "i32")
    return [TritonSpec("sampling.judge_drafts", judge_drafts_kernel, signature, {"BLOCK": _BLOCK}, _NUM_WARPS)]
