"""One row's draw under top-p or top-k: the cut by bisection of its candidates' logits, and the token in id order."""

from __future__ import annotations

import triton.language as tl

from tilelang_ops.jit.triton_jit import triton_jit
from tilelang_ops.sampling.fixed_weight import HIGHEST, LOWEST, logit_of, order_key, row_weight
from tilelang_ops.sampling.level_sums import bound_of

_BLOCK = tl.constexpr(2048)  # candidates worked on at once


@triton_jit
def _candidates_at(start, ids, is_listed, number, values, largest, temperature, min_weight):
    """(ids, order keys, weights) of a block of candidates; behind the last the largest id, the lowest key, weight 0."""
    places = start + tl.arange(0, _BLOCK)
    is_there = places < number
    found = tl.where(is_listed, tl.load(ids + places, mask=is_there & is_listed, other=0), places)
    logits = tl.load(values + found, mask=is_there, other=-float("inf"))
    weights = row_weight(logits, largest, temperature, min_weight)
    return tl.where(is_there, found, HIGHEST), tl.where(is_there, order_key(logits), LOWEST), weights


@triton_jit
def _above(bound, keys, weights, ids, is_listed, number, values, largest, temperature, min_weight):
    """(mass, number, lowest key) of the candidates whose key is above `bound`, and the highest key that is not.

    Those of the first block are given.
    """
    is_above = keys > bound
    mass, count = tl.where(is_above, weights, 0), is_above.to(tl.int32)
    higher, lower = tl.where(is_above, keys, HIGHEST), tl.where(is_above, LOWEST, keys)
    for start in range(_BLOCK, number, _BLOCK):
        _, more_keys, more = _candidates_at(start, ids, is_listed, number, values, largest, temperature, min_weight)
        is_above = more_keys > bound
        mass += tl.where(is_above, more, 0)
        count += is_above.to(tl.int32)
        higher = tl.minimum(higher, tl.where(is_above, more_keys, HIGHEST))
        lower = tl.maximum(lower, tl.where(is_above, LOWEST, more_keys))
    return tl.sum(mass, axis=0), tl.sum(count, axis=0), tl.min(higher, axis=0), tl.max(lower, axis=0)


@triton_jit
def _between(low, high, step):
    """A key in [low, high), in the middle by logits or, in every second step, by keys: neither may need many steps."""
    value = 0.5 * logit_of(low.to(tl.int32)) + 0.5 * logit_of(high.to(tl.int32))
    middle = tl.where(step % 2 == 0, order_key(value).to(tl.int64), (low + high) >> 1)
    return tl.maximum(low, tl.minimum(middle, high - 1))


@triton_jit
def draw_filtered(ids, is_listed, number, values, largest, temperature, min_weight, level, limit, top_k, word):
    """(token, key of the last kept token, kept tokens with that key) of a row with top-p or top-k."""
    _, keys, weights = _candidates_at(0, ids, is_listed, number, values, largest, temperature, min_weight)
    # A token is kept iff the mass above its key is at most the limit and fewer than top_k tokens are above it. Of equal
    # ones the first by id go on counting. So: the lowest key of a token for which that holds. It is a key of the
    # level, and not of the one before.
    low = order_key(bound_of(level, largest, temperature)).to(tl.int64)
    nearer = order_key(bound_of(level - 1, largest, temperature)).to(tl.int64) - 1
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
                token = tl.min(tl.where(before + tl.cumsum(weights, axis=0) > target, found, HIGHEST), axis=0)
    return token, cut, num_kept
