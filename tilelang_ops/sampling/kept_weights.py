"""The distribution that a row is drawn from, in full: what judging a draft needs."""

from __future__ import annotations

import torch
import triton.language as tl

from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.jit.triton_jit import triton_jit
from tilelang_ops.jit.triton_spec import TritonSpec
from tilelang_ops.sampling.draw_rows import DrawnRows
from tilelang_ops.sampling.fixed_weight import HIGHEST, order_key, row_weight
from tilelang_ops.sampling.row_maxima import chunk_places, num_chunks, row_peak
from tilelang_ops.sampling.row_rule import MIN_WEIGHT, field, temperature_of

_BLOCK = 4096  # logits worked on at once
_NUM_WARPS = 8


@triton_jit(do_not_specialize=["num_ids", "stride", "num_chunks"])
def kept_weights_kernel(
    logits,
    rules,
    maxima,
    cuts,
    places,
    weights,
    num_ids,
    stride,
    num_chunks,
    BLOCK: tl.constexpr,
    CHUNKS: tl.constexpr,
):
    """Program (row): its weights, 0 for what the filters leave out and for rows that are not drawn."""
    row = tl.program_id(0)
    place = tl.load(places + row)
    if place < 0:
        return
    largest, is_whole = row_peak(maxima, row, num_chunks, CHUNKS)
    temperature, min_weight = temperature_of(rules, row), field(rules, row, MIN_WEIGHT)
    is_drawn = is_whole & (temperature > 0.0)
    temperature = tl.where(is_drawn, temperature, 1.0)
    cut, num_kept = tl.load(cuts + row * 2).to(tl.int32), tl.load(cuts + row * 2 + 1)
    cut = tl.where(is_drawn, cut, HIGHEST)  # no key is above it
    num_seen = 0
    for start in range(0, num_ids, BLOCK):
        ids = start + tl.arange(0, BLOCK)
        values = tl.load(logits + row.to(tl.int64) * stride + ids, mask=ids < num_ids, other=-float("inf"))
        keys = order_key(values)
        is_equal = ((keys == cut) & (ids < num_ids)).to(tl.int32)
        order = num_seen + tl.cumsum(is_equal, axis=0) - is_equal
        is_kept = (keys > cut) | ((is_equal > 0) & (order < num_kept))
        kept = tl.where(is_kept, row_weight(values, largest, temperature, min_weight), 0)
        tl.store(weights + place * num_ids + ids, kept, mask=ids < num_ids)
        num_seen += tl.sum(is_equal, axis=0)


def kept_weights(
    logits: torch.Tensor, rules: torch.Tensor, drawn: DrawnRows, places: torch.Tensor, weights: torch.Tensor
) -> None:
    """Write unnormalised probabilities in units of 2^-40 of the best token's.

    Args:
        logits: float32 [n, V], and
        rules: int64 [n, 7] that `drawn` was made of.
        places: int64 [n] where each row's go, -1: nowhere.
        weights: int64 or, rounded, float32 [m, num_ids] contiguous; written.
    """
    if len(logits):
        sizes = (weights.shape[1], logits.stride(0), num_chunks(logits.shape[1]))
        inputs = (logits, rules, drawn.maxima, drawn.cuts, places)
        statics = _statics(logits.shape[1])
        options = {"num_warps": _NUM_WARPS, "enable_fp_fusion": False}
        with torch.cuda.device_of(logits):
            kept_weights_kernel[(len(logits),)](*inputs, weights, *sizes, **statics, **options)


def _statics(vocab: int) -> dict[str, int]:
    return {"BLOCK": _BLOCK, "CHUNKS": chunk_places(vocab)}


def kernel_specs(sizes: ModelSizes) -> list[TritonSpec]:
    """Two per vocabulary: exact ones of rows that judge drafts, rounded ones of drafts."""
    statics = _statics(sizes.vocab_size)
    inputs, lengths = ("*fp32", "*i64", "*fp32", "*i64", "*i64"), ("i32", "i32", "i32")
    return [
        TritonSpec(f"sampling.kept_weights.{name}", kept_weights_kernel, (*inputs, kind, *lengths), statics, _NUM_WARPS)
        for name, kind in (("exact", "*i64"), ("rounded", "*fp32"))
    ]
