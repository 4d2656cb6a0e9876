"""Mass and number of tokens within some distances of a row's best: which of these holds the cut of top-p and top-k."""

from __future__ import annotations

import torch
import triton.language as tl

from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.jit.triton_jit import triton_jit
from tilelang_ops.jit.triton_spec import TritonSpec
from tilelang_ops.sampling.fixed_weight import row_weight
from tilelang_ops.sampling.row_maxima import CHUNK, NUM_WARPS, chunk_places, load_logits, row_peak
from tilelang_ops.sampling.row_rule import MIN_WEIGHT, TOP_K, TOP_P, field, has_filter, temperature_of

# Distances from the best logit, after temperature, at which mass and tokens are counted; behind them comes everything.
_NEAR = tl.constexpr(-2.0)
_MIDDLE = tl.constexpr(-6.0)
_FAR = tl.constexpr(-12.0)
LEVELS = tl.constexpr(4)  # numbers 0 to 3 in the kernels
_LEAST_FINITE = tl.constexpr(-3.4028234663852886e38)


@triton_jit
def bound_of(level, largest, temperature):
    """float32: the least logit of a level."""
    distance = tl.where(level == 0, _NEAR, tl.where(level == 1, _MIDDLE, _FAR))
    bound = tl.maximum(largest + distance * temperature, _LEAST_FINITE)
    return tl.where(level == 3, -float("inf"), bound)


@triton_jit(do_not_specialize=["num_ids", "stride", "num_chunks"])
def level_sums_kernel(
    logits, rules, maxima, masses, counts, num_ids, stride, num_chunks, CHUNK: tl.constexpr, CHUNKS: tl.constexpr
):
    """Program (row, chunk): mass int64 and number int32 of the chunk's tokens at each level.

    Of a row without top-p and top-k, of the last level alone.
    """
    row, chunk = tl.program_id(0), tl.program_id(1)
    temperature = temperature_of(rules, row)
    if temperature == 0.0:
        return
    # All loads before the first sum, whose barrier they would wait behind.
    place = row.to(tl.int64) * num_chunks + chunk
    min_weight, is_filtered = field(rules, row, MIN_WEIGHT), has_filter(rules, row, num_ids)
    chunk_best = tl.load(maxima + place)
    values = load_logits(logits, chunk * CHUNK, row, stride, num_ids, CHUNK)
    largest, is_whole = row_peak(maxima, row, num_chunks, CHUNKS)
    if is_whole:
        weights = row_weight(values, largest, temperature, min_weight)
        tl.store(masses + place * LEVELS + 3, tl.sum(weights, axis=0))
        tl.store(counts + place * LEVELS + 3, tl.maximum(tl.minimum(num_ids - chunk * CHUNK, CHUNK), 0))
        if is_filtered:
            for level in tl.static_range(3):
                bound = bound_of(level, largest, temperature)
                mass, count = tl.full((), 0, tl.int64), 0
                if chunk_best >= bound:
                    inside = values >= bound
                    mass, count = tl.sum(tl.where(inside, weights, 0), axis=0), tl.sum(inside.to(tl.int32), axis=0)
                tl.store(masses + place * LEVELS + level, mass)
                tl.store(counts + place * LEVELS + level, count)


@triton_jit
def row_level(masses, counts, rules, row, num_ids, num_chunks, CHUNKS: tl.constexpr):
    """(first level whose tokens hold the cut, number of its tokens, most mass in front of a kept token, most tokens)"""
    chunks, levels = tl.arange(0, CHUNKS)[:, None], tl.arange(0, LEVELS)
    places = (row.to(tl.int64) * num_chunks + chunks) * LEVELS + levels[None, :]
    is_there = chunks < num_chunks
    mass = tl.sum(tl.load(masses + places, mask=is_there, other=0), axis=0)
    count = tl.sum(tl.load(counts + places, mask=is_there, other=0), axis=0)
    total = tl.sum(tl.where(levels == 3, mass, 0), axis=0)
    top_p = field(rules, row, TOP_P).to(tl.float64, bitcast=True)
    limit = tl.where(top_p < 1.0, (top_p * total.to(tl.float64)).to(tl.int64), total)
    top_k = field(rules, row, TOP_K)
    top_k = tl.where(top_k > 0, tl.minimum(top_k, num_ids), num_ids)
    level = tl.min(tl.where((mass > limit) | (count >= top_k), levels, 3), axis=0)
    return level, tl.sum(tl.where(levels == level, count, 0), axis=0), limit, top_k


def level_sums(
    logits: torch.Tensor, rules: torch.Tensor, maxima: torch.Tensor, num_ids: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Masses int64 and numbers int32 [n, C, 4] of the tokens of rows' chunks at each level; of drawn rows alone.

    Args:
        logits: float32 [n, V], rows contiguous, n > 0.
        rules: int64 [n, 7], see `row_rule`.
        maxima: float32 [n, C] of `row_maxima`.
        num_ids: ids that may be drawn, the first ones.
    """
    num_rows, chunks = maxima.shape
    masses = torch.empty((num_rows, chunks, LEVELS.value), dtype=torch.int64, device=logits.device)
    counts = torch.empty((num_rows, chunks, LEVELS.value), dtype=torch.int32, device=logits.device)
    statics = _statics(logits.shape[1])
    options = {"num_warps": NUM_WARPS, "enable_fp_fusion": False}
    outputs, lengths = (masses, counts), (num_ids, logits.stride(0), chunks)
    with torch.cuda.device_of(logits):
        level_sums_kernel[num_rows, chunks](logits, rules, maxima, *outputs, *lengths, **statics, **options)
    return outputs


def _statics(vocab: int) -> dict[str, int]:
    return {"CHUNK": CHUNK, "CHUNKS": chunk_places(vocab)}


def kernel_specs(sizes: ModelSizes) -> list[TritonSpec]:
    """One per vocabulary."""
    signature = ("*fp32", "*i64", "*fp32", "*i64", "*i32", "i32", "i32", "i32")
    statics = _statics(sizes.vocab_size)
    return [TritonSpec("sampling.level_sums", level_sums_kernel, signature, statics, NUM_WARPS)]
