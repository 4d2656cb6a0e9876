"""Lists the tokens among which the cut of a row's top-p and top-k lies, in id order."""

from __future__ import annotations

import torch
import triton.language as tl

from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.jit.triton_jit import triton_jit
from tilelang_ops.jit.triton_spec import TritonSpec
from tilelang_ops.sampling.level_sums import LEVELS, bound_of, row_level
from tilelang_ops.sampling.row_maxima import CHUNK, NUM_WARPS, chunk_places, load_logits, row_peak
from tilelang_ops.sampling.row_rule import has_filter, temperature_of

_GROUP = 16  # chunks a program lists the candidates of, in turn: most have none
CAPACITY = 16384  # candidates of a row; a row with more has a good part of the vocabulary, and is looked at whole


@triton_jit(do_not_specialize=["num_ids", "stride", "num_chunks"])
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
    level, number, _, _ = row_level(masses, counts, rules, row, num_ids, num_chunks, CHUNKS)
    if number > CAPACITY:
        return
    bound = bound_of(level, largest, temperature)
    chunks = tl.arange(0, CHUNKS)
    own_counts = counts + row.to(tl.int64) * num_chunks * LEVELS + level
    place = tl.sum(tl.load(own_counts + chunks * LEVELS, mask=chunks < first_chunk, other=0), axis=0)
    for chunk in range(first_chunk, tl.minimum(first_chunk + GROUP, num_chunks)):
        count = tl.load(own_counts + chunk * LEVELS)
        if count > 0:
            ids = chunk * CHUNK + tl.arange(0, CHUNK)
            values = load_logits(logits, chunk * CHUNK, row, stride, num_ids, CHUNK)
            inside = (values >= bound) & (ids < num_ids)
            places = place + tl.cumsum(inside.to(tl.int32), axis=0) - 1
            tl.store(candidates + row.to(tl.int64) * CAPACITY + places, ids, mask=inside)
        place += count


def list_candidates(
    logits: torch.Tensor,
    rules: torch.Tensor,
    maxima: torch.Tensor,
    levels: tuple[torch.Tensor, torch.Tensor],
    num_ids: int,
) -> torch.Tensor:
    """Ids int32 [n, CAPACITY], of which a row's first are its candidates; of rows with filters and not too many.

    Args:
        logits: float32 [n, V], rows contiguous, n > 0.
        rules: int64 [n, 7], see `row_rule`.
        maxima: float32 [n, C] of `row_maxima`.
        levels: masses and numbers of `level_sums`.
        num_ids: ids that may be drawn, the first ones.
    """
    num_rows, chunks = maxima.shape
    candidates = torch.empty((num_rows, CAPACITY), dtype=torch.int32, device=logits.device)
    statics = _statics(logits.shape[1])
    options = {"num_warps": NUM_WARPS, "enable_fp_fusion": False}
    inputs, lengths = (logits, rules, maxima, *levels), (num_ids, logits.stride(0), chunks)
    with torch.cuda.device_of(logits):
        list_candidates_kernel[num_rows, -(-chunks // _GROUP)](*inputs, candidates, *lengths, **statics, **options)
    return candidates


def _statics(vocab: int) -> dict[str, int]:
    return {"CHUNK": CHUNK, "CHUNKS": chunk_places(vocab), "GROUP": _GROUP, "CAPACITY": CAPACITY}


def kernel_specs(sizes: ModelSizes) -> list[TritonSpec]:
    """One per vocabulary."""
    signature = ("*fp32", "*i64", "*fp32", "*i64", "*i32", "*i32", "i32", "i32", "i32")
    statics = _statics(sizes.vocab_size)
    return [TritonSpec("sampling.list_candidates", list_candidates_kernel, signature, statics, NUM_WARPS)]
