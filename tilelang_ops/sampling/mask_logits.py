"""Bans tokens by a grammar's bit mask."""

from __future__ import annotations

import torch
import triton.language as tl

from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.jit.triton_jit import triton_jit
from tilelang_ops.jit.triton_spec import TritonSpec

_BLOCK = 1024
_NUM_WARPS = 4


@triton_jit(do_not_specialize=["num_ids", "stride", "num_words"])
def mask_logits_kernel(logits, masks, num_ids, stride, num_words, BLOCK: tl.constexpr):
    """Program (row, block): -inf where the bit of the token is 0."""
    row = tl.program_id(0)
    ids = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    words = tl.load(masks + row.to(tl.int64) * num_words + (ids >> 5), mask=ids < num_ids, other=-1)
    is_banned = ((words >> (ids & 31)) & 1) == 0
    places = logits + row.to(tl.int64) * stride + ids
    tl.store(places, tl.full((BLOCK,), -float("inf"), tl.float32), mask=is_banned & (ids < num_ids))


def mask_logits(logits: torch.Tensor, masks: torch.Tensor) -> None:
    """Set the forbidden ones of float32 [n, V] logits, rows contiguous, to -inf, in place.

    Args:
        masks: int32 [n, ceil(V / 32)] contiguous, bit i of word w allows token 32 w + i.
    """
    num_rows, num_ids = logits.shape
    if num_rows:
        sizes = (num_ids, logits.stride(0), masks.shape[1])
        with torch.cuda.device_of(logits):
            options = {"BLOCK": _BLOCK, "num_warps": _NUM_WARPS, "enable_fp_fusion": False}
            mask_logits_kernel[num_rows, -(-num_ids // _BLOCK)](logits, masks, *sizes, **options)


def kernel_specs(sizes: ModelSizes) -> list[TritonSpec]:
    """One for all vocabularies."""
    signature = ("*fp32", "*i32", "i32", "i32", "i32")
    return [TritonSpec("sampling.mask_logits", mask_logits_kernel, signature, {"BLOCK": _BLOCK}, _NUM_WARPS)]
