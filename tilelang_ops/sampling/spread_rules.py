"""The rule of every row of a decode step, from the rules of its sequences' first rows."""

from __future__ import annotations

import torch
import triton.language as tl

from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.jit.triton_jit import triton_jit
from tilelang_ops.jit.triton_spec import TritonSpec
from tilelang_ops.sampling.row_rule import FIELD_PLACES, INDEX, NUM_FIELDS

_NUM_WARPS = 1


@triton_jit(do_not_specialize=["width", "num_fields"])
def spread_rules_kernel(rules, seqs, first_rows, words, width, num_fields, FIELDS: tl.constexpr):
    """Program (row): a row speaks about as many output tokens behind the first one's as it stands behind that."""
    row = tl.program_id(0)
    seq = tl.maximum(tl.load(seqs + row), 0)
    place = tl.arange(0, FIELDS)
    word = tl.load(rules + seq * width + place, mask=place < num_fields, other=0)
    word += tl.where(place == INDEX, row - tl.load(first_rows + seq), 0)
    tl.store(words + row.to(tl.int64) * num_fields + place, word, mask=place < num_fields)


def spread_rules(rules: torch.Tensor, seqs: torch.Tensor, first_rows: torch.Tensor) -> torch.Tensor:
    """int64 [T, 7] row rules.

    Args:
        rules: int64 [S, W] contiguous, the rule of a sequence's first row in its first 7 columns.
        seqs: int64 [T] sequence of each row; below 0 for padding, which gets some rule.
        first_rows: int64 [S].
    """
    words = torch.empty((len(seqs), NUM_FIELDS), dtype=torch.int64, device=seqs.device)
    options = {"FIELDS": FIELD_PLACES, "num_warps": _NUM_WARPS, "enable_fp_fusion": False}
    if len(seqs):
        with torch.cuda.device_of(seqs):
            spread_rules_kernel[(len(seqs),)](rules, seqs, first_rows, words, rules.shape[1], NUM_FIELDS, **options)
    return words


def kernel_specs(sizes: ModelSizes) -> list[TritonSpec]:
    """One for all models."""
    signature = ("*i64", "*i64", "*i64", "*i64", "i32", "i32")
    return [TritonSpec("sampling.spread_rules", spread_rules_kernel, signature, {"FIELDS": FIELD_PLACES}, _NUM_WARPS)]
