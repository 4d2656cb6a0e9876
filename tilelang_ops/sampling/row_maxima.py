"""The best token of every chunk of a row, and whether the row's logits can be sampled at all."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.jit.triton_spec import TritonSpec

CHUNK = 4096  # logits a program looks at
NUM_WARPS = 8


@triton.jit(do_not_specialize=["num_ids", "vocab", "stride", "num_chunks"])
def row_maxima_kernel(logits, maxima, best, num_ids, vocab, stride, num_chunks, CHUNK: tl.constexpr):
    """Program (row, chunk): maximum, NaN for a chunk with NaN or +inf, and its lowest id.

    The ids behind num_ids are looked at for NaN and +inf alone.
    """
    row, chunk = tl.program_id(0), tl.program_id(1)
    ids = chunk * CHUNK + tl.arange(0, CHUNK)
    values = tl.load(logits + row.to(tl.int64) * stride + ids, mask=ids < vocab, other=-float("inf"))
    is_bad = ~(values < float("inf"))
    usable = tl.where(is_bad | (ids >= num_ids), -float("inf"), values)
    largest = tl.max(usable, axis=0)
    lowest = tl.min(tl.where(usable == largest, ids, 2147483647), axis=0)
    num_bad = tl.sum(is_bad.to(tl.int32), axis=0)
    place = row.to(tl.int64) * num_chunks + chunk
    tl.store(maxima + place, tl.where(num_bad > 0, float("nan"), largest))
    tl.store(best + place, lowest)


@triton.jit
def row_best(maxima, best, row, num_chunks, CHUNKS: tl.constexpr):
    """(maximum float32, its lowest id int32, whether it is finite and nothing in the row is NaN or +inf)."""
    chunks = tl.arange(0, CHUNKS)
    first = row.to(tl.int64) * num_chunks
    values = tl.load(maxima + first + chunks, mask=chunks < num_chunks, other=-float("inf"))
    num_bad = tl.sum((values != values).to(tl.int32), axis=0)
    largest = tl.max(tl.where(values != values, -float("inf"), values), axis=0)
    ids = tl.load(best + first + chunks, mask=chunks < num_chunks, other=2147483647)
    lowest = tl.min(tl.where(values == largest, ids, 2147483647), axis=0)
    return largest, lowest, (num_bad == 0) & (largest > -float("inf"))


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
