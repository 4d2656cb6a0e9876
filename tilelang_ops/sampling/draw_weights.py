"""Draws one token per row from weights that are given."""

from __future__ import annotations

import torch
import triton.language as tl

from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.jit.triton_jit import triton_jit
from tilelang_ops.jit.triton_spec import TritonSpec
from tilelang_ops.sampling.fixed_weight import HIGHEST
from tilelang_ops.sampling.row_rule import random_word

_BLOCK = 4096  # weights worked on at once
_NUM_WARPS = 8


@triton_jit(do_not_specialize=["num_ids", "index_offset", "stream_word"])
def draw_weights_kernel(weights, places, rules, tokens, num_ids, index_offset, stream_word, BLOCK: tl.constexpr):
    """Program (row): the first id whose running sum exceeds floor(word * sum / 2^64)."""
    row = tl.program_id(0)
    place = tl.load(places + row)
    if place < 0:
        return
    values = weights + place * num_ids
    total = tl.full((), 0, tl.int64)
    for start in range(0, num_ids, BLOCK):
        ids = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(values + ids, mask=ids < num_ids, other=0.0).to(tl.int64), axis=0)
    word = random_word(rules, row, index_offset, stream_word)
    target = tl.umulhi(word, total.to(tl.uint64)).to(tl.int64)
    token, running = -1, tl.full((), 0, tl.int64)
    for start in range(0, num_ids, BLOCK):
        ids = start + tl.arange(0, BLOCK)
        sums = running + tl.cumsum(tl.load(values + ids, mask=ids < num_ids, other=0.0).to(tl.int64), axis=0)
        first = tl.min(tl.where(sums > target, ids, HIGHEST), axis=0)
        token = tl.where((token < 0) & (first < HIGHEST), first, token)
        running = tl.max(sums, axis=0)
    tl.store(tokens + row, token.to(tl.int64))


def draw_weights(
    weights: torch.Tensor,
    places: torch.Tensor,
    rules: torch.Tensor,
    tokens: torch.Tensor,
    *,
    stream_word: int,
    index_offset: int = 0,
) -> None:
    """Draw ids in proportion to weights, by inverse CDF in id order; -1 for a row of zeros.

    Args:
        weights: float32 [m, V] contiguous, whole numbers >= 0 whose sum is below 2^63.
        places: int64 [n] each row's in `weights`, -1 for a row that is left as it is.
        rules: int64 [n, 7], see `row_rule`.
        tokens: int64 [n]; written.
        stream_word: `row_rule.stream` of what the draw is for.
        index_offset: added to the rules' output indices.
    """
    if len(places):
        key = (weights.shape[1], index_offset, stream_word)
        with torch.cuda.device_of(weights):
            options = {"BLOCK": _BLOCK, "num_warps": _NUM_WARPS, "enable_fp_fusion": False}
            draw_weights_kernel[(len(places),)](weights, places, rules, tokens, *key, **options)


def kernel_specs(sizes: ModelSizes) -> list[TritonSpec]:
    """One for all vocabularies."""
    signature = ("*fp32", "*i64", "*i64", "*i64", "i32", "i32", "i32")
    return [TritonSpec("sampling.draw_weights", draw_weights_kernel, signature, {"BLOCK": _BLOCK}, _NUM_WARPS)]
