"""One token per row: argmax, or temperature, min_p, top-p and top-k, and a draw, without sorting the vocabulary.

Four launches for any number of rows. (1) `row_maxima`. (2) Weights as integers; per chunk the mass and the number of
the tokens within some distances of the best. (3) Rows with top-p or top-k: the tokens of the smallest such distance
that holds the cut are listed in id order, unless they are many. (4) The cut is found among those, or in the whole row,
by bisection of the logits, and the token is drawn in id order. Sums are of integers, so their order does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton.language as tl

from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.jit.triton_jit import triton_jit
from tilelang_ops.jit.triton_spec import TritonSpec
from tilelang_ops.sampling.draw_filtered import draw_filtered
from tilelang_ops.sampling.fixed_weight import HIGHEST, LOWEST, row_weight
from tilelang_ops.sampling.level_sums import LEVELS, level_sums, row_level
from tilelang_ops.sampling.list_candidates import CAPACITY, list_candidates
from tilelang_ops.sampling.row_maxima import CHUNK, chunk_places, load_logits, lowest_best, row_maxima, row_peak
from tilelang_ops.sampling.row_rule import MIN_WEIGHT, field, has_filter, random_word, temperature_of

_NUM_WARPS = 8


@triton_jit
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
    place = (row.to(tl.int64) * num_chunks + chunks) * LEVELS + 3
    chunk_masses = tl.load(masses + place, mask=chunks < num_chunks, other=0)
    sums = tl.cumsum(chunk_masses, axis=0)
    target = tl.umulhi(word, tl.sum(chunk_masses, axis=0).to(tl.uint64)).to(tl.int64)
    chunk = tl.sum((sums <= target).to(tl.int32), axis=0)
    before = tl.sum(tl.where(chunks < chunk, chunk_masses, 0), axis=0)
    ids = chunk * CHUNK + tl.arange(0, CHUNK)
    values = load_logits(logits, chunk * CHUNK, row, stride, num_ids, CHUNK)
    weights = row_weight(values, largest, temperature, min_weight)
    return tl.min(tl.where(before + tl.cumsum(weights, axis=0) > target, ids, HIGHEST), axis=0)


@triton_jit(do_not_specialize=["num_ids", "stride", "num_chunks", "index_offset", "stream_word"])
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
    token, cut, num_kept = tl.full((), -1, tl.int32), tl.full((), LOWEST, tl.int32), tl.full((), 0, tl.int64)
    if is_whole & (temperature == 0.0):
        token = lowest_best(maxima, best, row, largest, num_chunks, CHUNKS)
    if is_whole & (temperature > 0.0):
        min_weight = field(rules, row, MIN_WEIGHT)
        word = random_word(rules, row, index_offset, stream_word)
        if has_filter(rules, row, num_ids):
            level, number, limit, top_k = row_level(masses, counts, rules, row, num_ids, num_chunks, CHUNKS)
            is_listed = number <= CAPACITY
            number = tl.where(is_listed, number, num_ids)
            ids, values = candidates + row.to(tl.int64) * CAPACITY, logits + row.to(tl.int64) * stride
            token, cut, num_kept = draw_filtered(
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
        draws: whether any row is drawn; False saves launches.
        filters: whether any row has top-p or top-k; likewise.
    """
    maxima, best = row_maxima(logits, num_ids)
    (num_rows, chunks), device = maxima.shape, logits.device
    tokens = torch.empty(num_rows, dtype=torch.int64, device=device)
    cuts = torch.empty((num_rows, 2), dtype=torch.int64, device=device)
    if num_rows:
        # Masses and numbers of levels, and candidates; where no row needs them, others of their types, never read.
        levels, candidates = (cuts, best), best
        if draws:
            levels = level_sums(logits, rules, maxima, num_ids)
        if draws and filters:
            candidates = list_candidates(logits, rules, maxima, levels, num_ids)
        inputs, outputs = (logits, rules, maxima, *levels, candidates, best), (tokens, cuts)
        numbers = (num_ids, logits.stride(0), chunks, index_offset, stream_word)
        statics = _statics(logits.shape[1])
        options = {"num_warps": _NUM_WARPS, "enable_fp_fusion": False}
        with torch.cuda.device_of(logits):
            draw_tokens_kernel[(num_rows,)](*inputs, *outputs, *numbers, **statics, **options)
    return DrawnRows(tokens, cuts, maxima)


def _statics(vocab: int) -> dict[str, int]:
    return {"CHUNK": CHUNK, "CHUNKS": chunk_places(vocab), "CAPACITY": CAPACITY}


def kernel_specs(sizes: ModelSizes) -> list[TritonSpec]:
    """One per vocabulary."""
    signature = ("*fp32", "*i64", "*fp32", "*i64", *["*i32"] * 3, "*i64", "*i64", *["i32"] * 5)
    statics = _statics(sizes.vocab_size)
    return [TritonSpec("sampling.draw_rows", draw_tokens_kernel, signature, statics, _NUM_WARPS)]
