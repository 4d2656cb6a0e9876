"""One token per row: argmax, or temperature, min_p, top-p and top-k, and a draw, without sorting the vocabulary.

Four launches for any number of rows. (1) `row_maxima`. (2) Weights as integers; per chunk the mass and the number of
the tokens within some distances of the best. (3) Rows with top-p or top-k: the tokens of the smallest such distance
that holds the cut are listed in id order, unless they are many. (4) The cut is found among those, or in the whole row,
by bisection of the logits, and the token is drawn in id order. Sums are of integers, so their order does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.jit.triton_spec import TritonSpec
from tilelang_ops.sampling.fixed_weight import logit_of, order_key, row_weight
from tilelang_ops.sampling.row_maxima import (
    CHUNK,
    NUM_WARPS,
    chunk_places,
    load_logits,
    lowest_best,
    num_chunks,
    row_maxima,
    row_peak,
)
from tilelang_ops.sampling.row_rule import MIN_WEIGHT, TOP_K, TOP_P, field, has_filter, random_word, temperature_of

_DRAW_WARPS = 8
_GROUP = 8  # chunks a program lists the candidates of, in turn: most have none
_CAPACITY = 16384  # candidates of a row; a row with more has a good part of the vocabulary, and is looked at whole
# Distances from the best logit, after temperature, at which mass and tokens are counted; behind them comes everything.
_NEAR = tl.constexpr(-2.0)
_MIDDLE = tl.constexpr(-6.0)
_FAR = tl.constexpr(-12.0)
_LEVELS = 4  # numbers 0 to 3 in the kernels
_LEAST_FINITE = tl.constexpr(-3.4028234663852886e38)
_LOWEST = tl.constexpr(-2147483648)
_HIGHEST = tl.constexpr(2147483647)
_BLOCK = tl.constexpr(2048)  # candidates worked on at once


@triton.jit
def _bound_of(level, largest, temperature):
    """float32: the least logit of a level."""
    distance = tl.where(level == 0, _NEAR, tl.where(level == 1, _MIDDLE, _FAR))
    bound = tl.maximum(largest + distance * temperature, _LEAST_FINITE)
    return tl.where(level == 3, -float("inf"), bound)


@triton.jit(do_not_specialize=["num_ids", "stride", "num_chunks"])
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
        tl.store(masses + place * 4 + 3, tl.sum(weights, axis=0))
        tl.store(counts + place * 4 + 3, tl.maximum(tl.minimum(num_ids - chunk * CHUNK, CHUNK), 0))
        if is_filtered:
            for level in tl.static_range(3):
                bound = _bound_of(level, largest, temperature)
                mass, count = tl.full((), 0, tl.int64), 0
                if chunk_best >= bound:
                    inside = values >= bound
                    mass, count = tl.sum(tl.where(inside, weights, 0), axis=0), tl.sum(inside.to(tl.int32), axis=0)
                tl.store(masses + place * 4 + level, mass)
                tl.store(counts + place * 4 + level, count)


@triton.jit
def _row_level(masses, counts, rules, row, num_ids, num_chunks, CHUNKS: tl.constexpr):
    """(first level whose tokens hold the cut, number of its tokens, most mass in front of a kept token, most tokens)"""
    chunks, levels = tl.arange(0, CHUNKS)[:, None], tl.arange(0, 4)
    places = (row.to(tl.int64) * num_chunks + chunks) * 4 + levels[None, :]
    is_there = (chunks < num_chunks) & (levels[None, :] < 4)
    mass = tl.sum(tl.load(masses + places, mask=is_there, other=0), axis=0)
    count = tl.sum(tl.load(counts + places, mask=is_there, other=0), axis=0)
    total = tl.sum(tl.where(levels == 3, mass, 0), axis=0)
    top_p = field(rules, row, TOP_P).to(tl.float64, bitcast=True)
    limit = tl.where(top_p < 1.0, (top_p * total.to(tl.float64)).to(tl.int64), total)
    top_k = field(rules, row, TOP_K)
    top_k = tl.where(top_k > 0, tl.minimum(top_k, num_ids), num_ids)
    level = tl.min(tl.where((mass > limit) | (count >= top_k), levels, 3), axis=0)
    return level, tl.sum(tl.where(levels == level, count, 0), axis=0), limit, top_k


@triton.jit(do_not_specialize=["num_ids", "stride", "num_chunks"])
def list_candidates_kernel(
    logits,
    rules,
    maxima,
    masses,
    counts,
    candidates,
    num_ids,
    stride,
    num_chunks,
    CHUNK: tl.constexpr,
    CHUNKS: tl.constexpr,
    GROUP: tl.constexpr,
    CAPACITY: tl.constexpr,
):
    """Program (row, group of chunks): writes the ids of their tokens at the row's level, int32 [n, CAPACITY], in order.

    Rows with more are left out.
    """
    row, first_chunk = tl.program_id(0), tl.program_id(1) * GROUP
    temperature = temperature_of(rules, row)
    largest, is_whole = row_peak(maxima, row, num_chunks, CHUNKS)
    if (temperature == 0.0) | ~is_whole | ~has_filter(rules, row, num_ids):
        return
    level, number, _, _ = _row_level(masses, counts, rules, row, num_ids, num_chunks, CHUNKS)
    if number > CAPACITY:
        return
    bound = _bound_of(level, largest, temperature)
    chunks = tl.arange(0, CHUNKS)
    own_counts = counts + row.to(tl.int64) * num_chunks * 4 + level
    place = tl.sum(tl.load(own_counts + chunks * 4, mask=chunks < first_chunk, other=0), axis=0)
    for chunk in range(first_chunk, tl.minimum(first_chunk + GROUP, num_chunks)):
        count = tl.load(own_counts + chunk * 4)
        if count > 0:
            ids = chunk * CHUNK + tl.arange(0, CHUNK)
            values = load_logits(logits, chunk * CHUNK, row, stride, num_ids, CHUNK)
            inside = (values >= bound) & (ids < num_ids)
            places = place + tl.cumsum(inside.to(tl.int32), axis=0) - 1
            tl.store(candidates + row.to(tl.int64) * CAPACITY + places, ids, mask=inside)
        place += count


@triton.jit
def _candidates_at(start, ids, is_listed, number, values, largest, temperature, min_weight):
    """(ids, order keys, weights) of a block of candidates; behind the last the largest id, the lowest key, weight 0."""
    places = start + tl.arange(0, _BLOCK)
    is_there = places < number
    found = tl.where(is_listed, tl.load(ids + places, mask=is_there & is_listed, other=0), places)
    logits = tl.load(values + found, mask=is_there, other=-float("inf"))
    weights = row_weight(logits, largest, temperature, min_weight)
    return tl.where(is_there, found, _HIGHEST), tl.where(is_there, order_key(logits), _LOWEST), weights


@triton.jit
def _above(bound, keys, weights, ids, is_listed, number, values, largest, temperature, min_weight):
    """(mass, number, lowest key) of the candidates whose key is above `bound`, and the highest key that is not.

    Those of the first block are given.
    """
    is_above = keys > bound
    mass, count = tl.where(is_above, weights, 0), is_above.to(tl.int32)
    higher, lower = tl.where(is_above, keys, _HIGHEST), tl.where(is_above, _LOWEST, keys)
    for start in range(_BLOCK, number, _BLOCK):
        _, more_keys, more = _candidates_at(start, ids, is_listed, number, values, largest, temperature, min_weight)
        is_above = more_keys > bound
        mass += tl.where(is_above, more, 0)
        count += is_above.to(tl.int32)
        higher = tl.minimum(higher, tl.where(is_above, more_keys, _HIGHEST))
        lower = tl.maximum(lower, tl.where(is_above, _LOWEST, more_keys))
    return tl.sum(mass, axis=0), tl.sum(count, axis=0), tl.min(higher, axis=0), tl.max(lower, axis=0)


@triton.jit
def _between(low, high, step):
    """A key in [low, high), in the middle by logits or, in every second step, by keys: neither may need many steps."""
    value = 0.5 * logit_of(low.to(tl.int32)) + 0.5 * logit_of(high.to(tl.int32))
    middle = tl.where(step % 2 == 0, order_key(value).to(tl.int64), (low + high) >> 1)
    return tl.maximum(low, tl.minimum(middle, high - 1))


@triton.jit
def _draw_filtered(ids, is_listed, number, values, largest, temperature, min_weight, level, limit, top_k, word):
    """(token, key of the last kept token, kept tokens with that key) of a row with top-p or top-k."""
    _, keys, weights = _candidates_at(0, ids, is_listed, number, values, largest, temperature, min_weight)
    # A token is kept iff the mass above its key is at most the limit and fewer than top_k tokens are above it. Of equal
    # ones the first by id go on counting. So: the lowest key of a token for which that holds. It is a key of the
    # level, and not of the one before.
    low = order_key(_bound_of(level, largest, temperature)).to(tl.int64)
    nearer = order_key(_bound_of(level - 1, largest, temperature)).to(tl.int64) - 1
    high, step = tl.where(level > 0, nearer, order_key(largest).to(tl.int64)), 0
    while low < high:
        middle = _between(low, high, step)
        mass, count, higher, lower = _above(
            middle.to(tl.int32), keys, weights, ids, is_listed, number, values, largest, temperature, min_weight
        )
        holds = (mass <= limit) & (count < top_k)
        low, high = tl.where(holds, low, higher.to(tl.int64)), tl.where(holds, lower.to(tl.int64), high)
        step += 1
    cut = low.to(tl.int32)
    mass, count, _, _ = _above(cut, keys, weights, ids, is_listed, number, values, largest, temperature, min_weight)
    mass_with, count_with, _, _ = _above(
        cut - 1, keys, weights, ids, is_listed, number, values, largest, temperature, min_weight
    )
    num_equal = count_with - count
    weight = (mass_with - mass) // tl.maximum(num_equal, 1)
    by_mass = tl.where(weight > 0, (limit - mass) // tl.maximum(weight, 1) + 1, num_equal)
    num_kept = tl.minimum(tl.minimum(by_mass, top_k - count), num_equal)
    target = tl.umulhi(word, (mass + num_kept * weight).to(tl.uint64)).to(tl.int64)
    token, running, num_seen = -1, tl.full((), 0, tl.int64), 0
    for start in range(0, number, _BLOCK):
        if token < 0:
            found, keys, weights = _candidates_at(
                start, ids, is_listed, number, values, largest, temperature, min_weight
            )
            is_equal = (keys == cut).to(tl.int32)
            order = num_seen + tl.cumsum(is_equal, axis=0) - is_equal
            weights = tl.where((keys > cut) | ((is_equal > 0) & (order < num_kept)), weights, 0)
            before = running
            running += tl.sum(weights, axis=0)
            num_seen += tl.sum(is_equal, axis=0)
            if running > target:
                token = tl.min(tl.where(before + tl.cumsum(weights, axis=0) > target, found, _HIGHEST), axis=0)
    return token, cut, num_kept


@triton.jit
def _draw_any(
    masses,
    row,
    num_ids,
    logits,
    stride,
    largest,
    temperature,
    min_weight,
    word,
    num_chunks,
    CHUNK: tl.constexpr,
    CHUNKS: tl.constexpr,
):
    """The token of a row that keeps all: looks at the one chunk that holds it."""
    chunks = tl.arange(0, CHUNKS)
    place = (row.to(tl.int64) * num_chunks + chunks) * 4 + 3
    chunk_masses = tl.load(masses + place, mask=chunks < num_chunks, other=0)
    sums = tl.cumsum(chunk_masses, axis=0)
    target = tl.umulhi(word, tl.sum(chunk_masses, axis=0).to(tl.uint64)).to(tl.int64)
    chunk = tl.sum((sums <= target).to(tl.int32), axis=0)
    before = tl.sum(tl.where(chunks < chunk, chunk_masses, 0), axis=0)
    ids = chunk * CHUNK + tl.arange(0, CHUNK)
    values = load_logits(logits, chunk * CHUNK, row, stride, num_ids, CHUNK)
    weights = row_weight(values, largest, temperature, min_weight)
    return tl.min(tl.where(before + tl.cumsum(weights, axis=0) > target, ids, _HIGHEST), axis=0)


@triton.jit(do_not_specialize=["num_ids", "stride", "num_chunks", "index_offset", "stream_word"])
def draw_tokens_kernel(
    logits,
    rules,
    maxima,
    masses,
    counts,
    candidates,
    best,
    tokens,
    cuts,
    num_ids,
    stride,
    num_chunks,
    index_offset,
    stream_word,
    CHUNK: tl.constexpr,
    CHUNKS: tl.constexpr,
    CAPACITY: tl.constexpr,
):
    """Program (row): the token, -1 for a row that cannot be sampled, and what the filters keep.

    cuts int64 [n, 2]: the lowest key that is kept, and how many of the tokens with that key, by id.
    """
    row = tl.program_id(0)
    temperature = temperature_of(rules, row)
    largest, is_whole = row_peak(maxima, row, num_chunks, CHUNKS)
    token, cut, num_kept = tl.full((), -1, tl.int32), tl.full((), _LOWEST, tl.int32), tl.full((), 0, tl.int64)
    if is_whole & (temperature == 0.0):
        token = lowest_best(maxima, best, row, largest, num_chunks, CHUNKS)
    if is_whole & (temperature > 0.0):
        min_weight = field(rules, row, MIN_WEIGHT)
        word = random_word(rules, row, index_offset, stream_word)
        if has_filter(rules, row, num_ids):
            level, number, limit, top_k = _row_level(masses, counts, rules, row, num_ids, num_chunks, CHUNKS)
            is_listed = number <= CAPACITY
            number = tl.where(is_listed, number, num_ids)
            ids, values = candidates + row.to(tl.int64) * CAPACITY, logits + row.to(tl.int64) * stride
            token, cut, num_kept = _draw_filtered(
                ids, is_listed, number, values, largest, temperature, min_weight, level, limit, top_k, word
            )
        else:
            token = _draw_any(
                masses, row, num_ids, logits, stride, largest, temperature, min_weight, word, num_chunks, CHUNK, CHUNKS
            )
    tl.store(tokens + row, token.to(tl.int64))
    tl.store(cuts + row * 2, cut.to(tl.int64))
    tl.store(cuts + row * 2 + 1, num_kept)


@dataclass(frozen=True, slots=True)
class DrawnRows:
    """What became of n rows.

    Attributes:
        tokens: int64 [n]; -1 for a row with NaN or +inf, or without a finite logit among the first num_ids.
        cuts: int64 [n, 2] the lowest order key that is kept and how many tokens with that key are, by id.
        maxima: float32 [n, C] maxima of the rows' chunks, +inf for one with NaN or +inf.
    """

    tokens: torch.Tensor
    cuts: torch.Tensor
    maxima: torch.Tensor


def draw_rows(
    logits: torch.Tensor,
    rules: torch.Tensor,
    num_ids: int,
    *,
    stream_word: int,
    index_offset: int = 0,
    draws: bool = True,
    filters: bool = True,
) -> DrawnRows:
    """One token per row, bit for bit the torch sampler's.

    Args:
        logits: float32 [n, V], rows contiguous, V <= 2^22; NaN and +inf count in all V columns.
        rules: int64 [n, 7], see `row_rule`.
        num_ids: ids that may be drawn, the first ones.
        stream_word: `row_rule.stream` of what the draw is for.
        index_offset: added to the rules' output indices.
        draws: whether any row is drawn, and
        filters: whether any row has top-p or top-k; False saves launches.
    """
    maxima, best = row_maxima(logits, num_ids)
    num_rows, chunks, device = len(logits), num_chunks(logits.shape[1]), logits.device
    masses = torch.empty((num_rows, chunks, _LEVELS), dtype=torch.int64, device=device)
    counts = torch.empty((num_rows, chunks, _LEVELS), dtype=torch.int32, device=device)
    size = (num_rows, _CAPACITY) if draws and filters else (1, 1)
    candidates = torch.empty(size, dtype=torch.int32, device=device)
    drawn = DrawnRows(
        torch.empty(num_rows, dtype=torch.int64, device=device),
        torch.empty((num_rows, 2), dtype=torch.int64, device=device),
        maxima,
    )
    if not num_rows:
        return drawn
    inputs, sizes = (logits, rules, maxima, masses, counts), (num_ids, logits.stride(0), chunks)
    options = {"CHUNK": CHUNK, "CHUNKS": chunk_places(logits.shape[1]), "enable_fp_fusion": False}
    with torch.cuda.device_of(logits):
        if draws:
            level_sums_kernel[num_rows, chunks](*inputs, *sizes, **options, num_warps=NUM_WARPS)
        if draws and filters:
            shape, own = (num_rows, -(-chunks // _GROUP)), {"GROUP": _GROUP, "CAPACITY": _CAPACITY}
            list_candidates_kernel[shape](*inputs, candidates, *sizes, **options, **own, num_warps=NUM_WARPS)
        outputs, key = (best, drawn.tokens, drawn.cuts), (index_offset, stream_word)
        options |= {"CAPACITY": _CAPACITY, "num_warps": _DRAW_WARPS}
        draw_tokens_kernel[(num_rows,)](*inputs, candidates, *outputs, *sizes, *key, **options)
    return drawn


def kernel_specs(sizes: ModelSizes) -> list[TritonSpec]:
    """Three per vocabulary."""
    places = {"CHUNK": CHUNK, "CHUNKS": chunk_places(sizes.vocab_size)}
    rows, lengths = ("*fp32", "*i64", "*fp32", "*i64", "*i32"), ("i32", "i32", "i32")
    listed = places | {"GROUP": _GROUP, "CAPACITY": _CAPACITY}
    drawn = places | {"CAPACITY": _CAPACITY}
    outputs = ("*i32", "*i64", "*i64")
    return [
        TritonSpec("sampling.draw_rows.sums", level_sums_kernel, (*rows, *lengths), places, NUM_WARPS),
        TritonSpec(
            "sampling.draw_rows.candidates", list_candidates_kernel, (*rows, "*i32", *lengths), listed, NUM_WARPS
        ),
        TritonSpec(
            "sampling.draw_rows.tokens",
            draw_tokens_kernel,
            (*rows, "*i32", *outputs, *lengths, "i32", "i32"),
            drawn,
            _DRAW_WARPS,
        ),
    ]
