"""One token per row: argmax, or temperature, min_p, top-p and top-k, and a draw, without sorting the vocabulary.

Four launches for any number of rows. (1) `row_maxima`. (2) Weights as integers; per chunk the mass and the number of
the tokens within some distances of the best. (3) Rows with top-p or top-k: the tokens of the smallest such distance
that holds the cut are listed in id order. (4) The cut is found among those by bisection of the logits' order, and the
token is drawn in id order. Sums are of integers, so their order does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.jit.triton_spec import TritonSpec
from tilelang_ops.sampling.fixed_weight import order_key, row_weight
from tilelang_ops.sampling.row_maxima import CHUNK, NUM_WARPS, chunk_places, num_chunks, row_best, row_maxima
from tilelang_ops.sampling.row_rule import MIN_WEIGHT, TOP_K, TOP_P, field, has_filter, random_word, temperature_of

_BLOCK_VALUES = 2**22  # logits of rows with filters worked on at once
_ALIGNED_ROWS = 16  # blocks begin at multiples: Triton has a form of its own for pointers that are not aligned
# Distances from the best logit, after temperature, at which mass and tokens are counted; behind them comes everything.
_NEAR = tl.constexpr(-2.0)
_MIDDLE = tl.constexpr(-6.0)
_FAR = tl.constexpr(-12.0)
_LEVELS = 4  # numbers 0 to 3 in the kernels
_LOWEST = tl.constexpr(-2147483648)
_BLOCK = tl.constexpr(2048)  # candidates worked on at once


@triton.jit
def _floor_of(level):
    far = tl.where(level == 2, _FAR, -float("inf"))
    return tl.where(level == 0, _NEAR, tl.where(level == 1, _MIDDLE, far))


@triton.jit(do_not_specialize=["num_ids", "stride", "num_chunks"])
def level_sums_kernel(
    logits, rules, maxima, best, masses, counts, num_ids, stride, num_chunks, CHUNK: tl.constexpr, CHUNKS: tl.constexpr
):
    """Program (row, chunk): mass int64 and number int32 of the chunk's tokens at each level."""
    row, chunk = tl.program_id(0), tl.program_id(1)
    temperature = temperature_of(rules, row)
    largest, _, is_whole = row_best(maxima, best, row, num_chunks, CHUNKS)
    if (temperature == 0.0) | ~is_whole:
        return
    ids = chunk * CHUNK + tl.arange(0, CHUNK)
    values = tl.load(logits + row.to(tl.int64) * stride + ids, mask=ids < num_ids, other=-float("inf"))
    weights = row_weight(values, largest, temperature, field(rules, row, MIN_WEIGHT))
    shifted = tl.div_rn(values - largest, temperature)
    place = (row.to(tl.int64) * num_chunks + chunk) * 4
    for level in tl.static_range(4):
        inside = (shifted >= _floor_of(level)) & (ids < num_ids)
        tl.store(masses + place + level, tl.sum(tl.where(inside, weights, 0), axis=0))
        tl.store(counts + place + level, tl.sum(inside.to(tl.int32), axis=0))


@triton.jit
def _limits(masses, rules, row, num_ids, num_chunks, CHUNKS: tl.constexpr):
    """(mass of the row, most mass in front of a kept token, most tokens)."""
    chunks = tl.arange(0, CHUNKS)
    place = (row.to(tl.int64) * num_chunks + chunks) * 4
    total = tl.sum(tl.load(masses + place + 3, mask=chunks < num_chunks, other=0), axis=0)
    top_p = field(rules, row, TOP_P).to(tl.float64, bitcast=True)
    top_k = field(rules, row, TOP_K)
    limit = tl.where(top_p < 1.0, (top_p * total.to(tl.float64)).to(tl.int64), total)
    return total, limit, tl.where(top_k > 0, tl.minimum(top_k, num_ids), num_ids)


@triton.jit
def _level_of(masses, counts, row, limit, top_k, num_chunks, CHUNKS: tl.constexpr):
    """(first level whose tokens hold the cut, number of its tokens)."""
    chunks = tl.arange(0, CHUNKS)
    place = (row.to(tl.int64) * num_chunks + chunks) * 4
    level = 3
    number = tl.sum(tl.load(counts + place + 3, mask=chunks < num_chunks, other=0), axis=0)
    for step in tl.static_range(3):
        mass = tl.sum(tl.load(masses + place + (2 - step), mask=chunks < num_chunks, other=0), axis=0)
        count = tl.sum(tl.load(counts + place + (2 - step), mask=chunks < num_chunks, other=0), axis=0)
        holds = (mass > limit) | (count >= top_k)
        level = tl.where(holds, 2 - step, level)
        number = tl.where(holds, count, number)
    return level, number


@triton.jit(do_not_specialize=["num_ids", "stride", "num_chunks"])
def list_candidates_kernel(
    logits,
    rules,
    maxima,
    best,
    masses,
    counts,
    candidates,
    num_ids,
    stride,
    num_chunks,
    CHUNK: tl.constexpr,
    CHUNKS: tl.constexpr,
):
    """Program (row, chunk): writes the ids of the chunk's tokens at the row's level, int32 [n, num_ids], in order."""
    row, chunk = tl.program_id(0), tl.program_id(1)
    temperature = temperature_of(rules, row)
    largest, _, is_whole = row_best(maxima, best, row, num_chunks, CHUNKS)
    if (temperature == 0.0) | ~is_whole | ~has_filter(rules, row, num_ids):
        return
    _, limit, top_k = _limits(masses, rules, row, num_ids, num_chunks, CHUNKS)
    level, _ = _level_of(masses, counts, row, limit, top_k, num_chunks, CHUNKS)
    chunks = tl.arange(0, CHUNKS)
    place = (row.to(tl.int64) * num_chunks + chunks) * 4 + level
    first = tl.sum(tl.load(counts + place, mask=chunks < chunk, other=0), axis=0)
    ids = chunk * CHUNK + tl.arange(0, CHUNK)
    values = tl.load(logits + row.to(tl.int64) * stride + ids, mask=ids < num_ids, other=-float("inf"))
    inside = (tl.div_rn(values - largest, temperature) >= _floor_of(level)) & (ids < num_ids)
    places = first + tl.cumsum(inside.to(tl.int32), axis=0) - 1
    tl.store(candidates + row.to(tl.int64) * num_ids + places, ids, mask=inside)


@triton.jit
def _candidates_at(start, ids, number, values, largest, temperature, min_weight):
    """(ids, order keys, weights) of a block of candidates; behind the last the largest id, the lowest key, weight 0."""
    places = start + tl.arange(0, _BLOCK)
    is_there = places < number
    found = tl.load(ids + places, mask=is_there, other=0)
    logits = tl.load(values + found, mask=is_there, other=-float("inf"))
    weights = row_weight(logits, largest, temperature, min_weight)
    return (
        tl.where(is_there, found, 2147483647),
        tl.where(is_there, order_key(logits), _LOWEST),
        tl.where(is_there, weights, 0),
    )


@triton.jit
def _above(bound, keys, weights, ids, number, values, largest, temperature, min_weight):
    """(mass, number) of the candidates whose key is above `bound`; those of the first block are given."""
    is_above = keys > bound
    mass = tl.sum(tl.where(is_above, weights, 0), axis=0)
    count = tl.sum(is_above.to(tl.int32), axis=0)
    for start in range(_BLOCK, number, _BLOCK):
        _, more_keys, more = _candidates_at(start, ids, number, values, largest, temperature, min_weight)
        is_above = more_keys > bound
        mass += tl.sum(tl.where(is_above, more, 0), axis=0)
        count += tl.sum(is_above.to(tl.int32), axis=0)
    return mass, count


@triton.jit
def _draw_filtered(ids, number, values, largest, temperature, min_weight, limit, top_k, word):
    """(token, key of the last kept token, kept tokens with that key) of a row with top-p or top-k."""
    _, keys, weights = _candidates_at(0, ids, number, values, largest, temperature, min_weight)
    high = order_key(largest).to(tl.int64)
    least = tl.min(tl.where(keys == _LOWEST, 2147483647, keys), axis=0)
    low = tl.where(number <= _BLOCK, least, _LOWEST + 1).to(tl.int64)
    # A token is kept iff the mass above its key is at most the limit and fewer than top_k tokens are above it. Of equal
    # ones the first by id go on counting. So: the lowest key for which that holds.
    while low < high:
        middle = (low + high) >> 1
        mass, count = _above(middle.to(tl.int32), keys, weights, ids, number, values, largest, temperature, min_weight)
        holds = (mass <= limit) & (count < top_k)
        low, high = tl.where(holds, low, middle + 1), tl.where(holds, middle, high)
    cut = low.to(tl.int32)
    mass, count = _above(cut, keys, weights, ids, number, values, largest, temperature, min_weight)
    mass_with, count_with = _above(cut - 1, keys, weights, ids, number, values, largest, temperature, min_weight)
    num_equal = count_with - count
    weight = (mass_with - mass) // tl.maximum(num_equal, 1)
    by_mass = tl.where(weight > 0, (limit - mass) // tl.maximum(weight, 1) + 1, num_equal)
    num_kept = tl.minimum(tl.minimum(by_mass, top_k - count), num_equal)
    target = tl.umulhi(word, (mass + num_kept * weight).to(tl.uint64)).to(tl.int64)
    token, running, num_seen = -1, tl.full((), 0, tl.int64), 0
    for start in range(0, number, _BLOCK):
        found, keys, weights = _candidates_at(start, ids, number, values, largest, temperature, min_weight)
        is_equal = (keys == cut).to(tl.int32)
        order = num_seen + tl.cumsum(is_equal, axis=0) - is_equal
        is_kept = (keys > cut) | ((is_equal > 0) & (order < num_kept))
        weights = tl.where(is_kept, weights, 0)
        sums = running + tl.cumsum(weights, axis=0)
        first = tl.min(tl.where(sums > target, found, 2147483647), axis=0)
        token = tl.where((token < 0) & (first < 2147483647), first, token)
        running += tl.sum(weights, axis=0)
        num_seen += tl.sum(is_equal, axis=0)
    return token, cut, num_kept


@triton.jit
def _draw_any(
    masses,
    row,
    num_ids,
    values,
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
    logits = tl.load(values + ids, mask=ids < num_ids, other=-float("inf"))
    weights = row_weight(logits, largest, temperature, min_weight)
    return tl.min(tl.where(before + tl.cumsum(weights, axis=0) > target, ids, 2147483647), axis=0)


@triton.jit(do_not_specialize=["num_ids", "stride", "num_chunks", "index_offset", "stream_word"])
def draw_tokens_kernel(
    logits,
    rules,
    maxima,
    best,
    masses,
    counts,
    candidates,
    tokens,
    cuts,
    num_ids,
    stride,
    num_chunks,
    index_offset,
    stream_word,
    CHUNK: tl.constexpr,
    CHUNKS: tl.constexpr,
):
    """Program (row): the token, -1 for a row that cannot be sampled, and what the filters keep.

    cuts int64 [n, 2]: the lowest key that is kept, and how many of the tokens with that key, by id.
    """
    row = tl.program_id(0)
    temperature = temperature_of(rules, row)
    largest, lowest, is_whole = row_best(maxima, best, row, num_chunks, CHUNKS)
    tl.store(cuts + row * 2, _LOWEST)
    tl.store(cuts + row * 2 + 1, 0)
    tl.store(tokens + row, tl.where(is_whole, lowest, -1).to(tl.int64))
    if is_whole & (temperature > 0.0):
        values = logits + row.to(tl.int64) * stride
        min_weight = field(rules, row, MIN_WEIGHT)
        word = random_word(rules, row, index_offset, stream_word)
        if has_filter(rules, row, num_ids):
            _, limit, top_k = _limits(masses, rules, row, num_ids, num_chunks, CHUNKS)
            _, number = _level_of(masses, counts, row, limit, top_k, num_chunks, CHUNKS)
            ids = candidates + row.to(tl.int64) * num_ids
            token, cut, num_kept = _draw_filtered(
                ids, number, values, largest, temperature, min_weight, limit, top_k, word
            )
            tl.store(tokens + row, token.to(tl.int64))
            tl.store(cuts + row * 2, cut.to(tl.int64))
            tl.store(cuts + row * 2 + 1, num_kept.to(tl.int64))
        else:
            token = _draw_any(
                masses, row, num_ids, values, largest, temperature, min_weight, word, num_chunks, CHUNK, CHUNKS
            )
            tl.store(tokens + row, token.to(tl.int64))


@dataclass(frozen=True, slots=True)
class DrawnRows:
    """What became of n rows.

    Attributes:
        tokens: int64 [n]; -1 for a row with NaN or +inf, or without a finite logit among the first num_ids.
        cuts: int64 [n, 2] the lowest order key that is kept and how many tokens with that key are, by id.
        maxima: float32 [n, C] maxima of the rows' chunks, and
        best: int32 [n, C] their lowest ids.
    """

    tokens: torch.Tensor
    cuts: torch.Tensor
    maxima: torch.Tensor
    best: torch.Tensor


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
    blocks = max(1, _BLOCK_VALUES // logits.shape[1] // _ALIGNED_ROWS)
    step = blocks * _ALIGNED_ROWS if draws and filters else len(logits)
    parts = [
        _draw_block(logits[i : i + step], rules[i : i + step], num_ids, (index_offset, stream_word), (draws, filters))
        for i in range(0, len(logits), max(step, 1))
    ]
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return DrawnRows(
            logits.new_empty(0, dtype=torch.int64),
            logits.new_empty((0, 2), dtype=torch.int64),
            *row_maxima(logits, num_ids),
        )
    return DrawnRows(*(torch.cat([getattr(part, name) for part in parts]) for name in DrawnRows.__slots__))


def _draw_block(
    logits: torch.Tensor, rules: torch.Tensor, num_ids: int, key: tuple[int, int], wanted: tuple[bool, bool]
) -> DrawnRows:
    draws, filters = wanted
    maxima, best = row_maxima(logits, num_ids)
    num_rows, chunks, device = len(logits), num_chunks(logits.shape[1]), logits.device
    masses = torch.empty((num_rows, chunks, _LEVELS), dtype=torch.int64, device=device)
    counts = torch.empty((num_rows, chunks, _LEVELS), dtype=torch.int32, device=device)
    size = (num_rows, num_ids) if draws and filters else (1, 1)
    candidates = torch.empty(size, dtype=torch.int32, device=device)
    tokens = torch.empty(num_rows, dtype=torch.int64, device=device)
    cuts = torch.empty((num_rows, 2), dtype=torch.int64, device=device)
    inputs, sums, sizes = (logits, rules, maxima, best), (masses, counts), (num_ids, logits.stride(0), chunks)
    outputs, options = (candidates, tokens, cuts), launch(logits.shape[1])
    with torch.cuda.device_of(logits):
        if draws:
            level_sums_kernel[num_rows, chunks](*inputs, *sums, *sizes, **options)
        if draws and filters:
            list_candidates_kernel[num_rows, chunks](*inputs, *sums, candidates, *sizes, **options)
        draw_tokens_kernel[(num_rows,)](*inputs, *sums, *outputs, *sizes, *key, **options)
    return DrawnRows(tokens, cuts, maxima, best)


def launch(vocab: int) -> dict[str, object]:
    """Constants and options of a launch over rows of `vocab` logits."""
    options = {"num_warps": NUM_WARPS, "enable_fp_fusion": False}
    return {"CHUNK": CHUNK, "CHUNKS": chunk_places(vocab)} | options


def kernel_specs(sizes: ModelSizes) -> list[TritonSpec]:
    """Three per vocabulary."""
    constants = {"CHUNK": CHUNK, "CHUNKS": chunk_places(sizes.vocab_size)}
    rows = ("*fp32", "*i64", "*fp32", "*i32", "*i64", "*i32")
    lengths = ("i32", "i32", "i32")
    kernels = (
        ("sums", level_sums_kernel, (*rows, *lengths)),
        ("candidates", list_candidates_kernel, (*rows, "*i32", *lengths)),
        ("tokens", draw_tokens_kernel, (*rows, "*i32", "*i64", "*i64", *lengths, "i32", "i32")),
    )
    return [
        TritonSpec(f"sampling.draw_rows.{name}", kernel, signature, constants, NUM_WARPS)
        for name, kernel, signature in kernels
    ]
