"""The best token of every chunk of a row, and whether the row's logits can be sampled at all."""

from __future__ import annotations

import torch
import triton.language as tl

from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.jit.triton_jit import triton_jit
from tilelang_ops.jit.triton_spec import TritonSpec
from tilelang_ops.sampling.fixed_weight import HIGHEST

CHUNK = 1024  # logits a program looks at
NUM_WARPS = 2


@triton_jit
def load_logits(logits, first, row, stride, num_ids, SIZE: tl.constexpr):
    """float32 [SIZE] logits of a row from id `first` on, a multiple of 4; -inf from num_ids on.

    Rows that all begin at a multiple of 16 bytes are read by vectors.
    """
    ids = first + tl.arange(0, SIZE)
    begin = row.to(tl.int64) * stride
    if (stride % 4 == 0) & (first + SIZE <= num_ids):
        values = tl.load(logits + tl.multiple_of(begin, 4) + ids)
    else:
        values = tl.load(logits + begin + ids, mask=ids < num_ids, other=-float("inf"))
    return values


@triton_jit(do_not_specialize=["num_ids", "vocab", "stride", "num_chunks"])
def row_maxima_kernel(logits, maxima, best, num_ids, vocab, stride, num_chunks, CHUNK: tl.constexpr):
    """Program (row, chunk): maximum, +inf for a chunk with NaN or +inf, and its lowest id.

    The ids behind num_ids are looked at for NaN and +inf alone.
    """
    row, chunk = tl.program_id(0), tl.program_id(1)
    ids = chunk * CHUNK + tl.arange(0, CHUNK)
    values = load_logits(logits, chunk * CHUNK, row, stride, vocab, CHUNK)
    usable = tl.where(ids < num_ids, values, -float("inf"))
    usable = tl.where(values < float("inf"), usable, float("inf"))
    largest = tl.max(usable, axis=0)
    place = row.to(tl.int64) * num_chunks + chunk
    tl.store(maxima + place, largest)
    tl.store(best + place, tl.min(tl.where(usable == largest, ids, HIGHEST), axis=0))


@triton_jit
def row_peak(maxima, row, num_chunks, CHUNKS: tl.constexpr):
    """(maximum float32, whether it is finite and nothing in the row is NaN or +inf)."""
    chunks = tl.arange(0, CHUNKS)
    place = row.to(tl.int64) * num_chunks + chunks
    largest = tl.max(tl.load(maxima + place, mask=chunks < num_chunks, other=-float("inf")), axis=0)
    return largest, (largest > -float("inf")) & (largest < float("inf"))


@triton_jit
def lowest_best(maxima, best, row, largest, num_chunks, CHUNKS: tl.constexpr):
    """int32: lowest id of the tokens with the row's maximum."""
    chunks = tl.arange(0, CHUNKS)
    place = row.to(tl.int64) * num_chunks + chunks
    values = tl.load(maxima + place, mask=chunks < num_chunks, other=-float("inf"))
    ids = tl.load(best + place, mask=chunks < num_chunks, other=HIGHEST)
    return tl.min(tl.where(values == largest, ids, HIGHEST), axis=0)


def row_maxima(logits: torch.Tensor, num_ids: int) -> tuple[torch.Tensor, torch.Tensor]:
    """logits float32 [n, V], rows contiguous -> maxima float32 [n, C] and ids int32 [n, C] of its C chunks."""
    num_rows, vocab = logits.shape
    shape = (num_rows, num_chunks(vocab))
    maxima = torch.empty(shape, dtype=torch.float32, device=logits.device)
    best = torch.empty(shape, dtype=torch.int32, device=logits.device)
    statics = {"CHUNK": CHUNK, "num_warps": NUM_WARPS, "enable_fp_fusion": False}
    if num_rows:
        with torch.cuda.device_of(logits):
            row_maxima_kernel[shape](logits, maxima, best, num_ids, vocab, logits.stride(0), shape[1], **statics)
    return maxima, best


def num_chunks(vocab: int) -> int:
    """Chunks of a row."""
    return -(-vocab // CHUNK)


def chunk_places(vocab: int) -> int:
    """The next power of two, for vectors over a row's chunks."""
    return max(16, 1 << (num_chunks(vocab) - 1).bit_length())


def kernel_specs(sizes: ModelSizes) -> list[TritonSpec]:
    """One for all vocabularies."""
    signature = ("*fp32", "*fp32", "*i32", "i32", "i32", "i32", "i32")
    return [TritonSpec("sampling.row_maxima", row_maxima_kernel, signature, {"CHUNK": CHUNK}, NUM_WARPS)]
