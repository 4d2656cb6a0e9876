"""Where the blocks of a draft pass behind a decode step begin, and the rule of each one's first draft."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton.language as tl

from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.jit.triton_jit import triton_jit
from tilelang_ops.jit.triton_spec import TritonSpec
from tilelang_ops.sampling.row_rule import FIELD_PLACES, INDEX, NUM_FIELDS

_NUM_WARPS = 1


@dataclass(frozen=True, slots=True)
class DraftStarts:
    """Of S sequences.

    Attributes:
        tokens, positions: int64 [S] newest token, and position of the one before it; 0 of a sequence without drafts.
        is_wanted: bool [S] which sequences get drafts.
        words: int64 [S, 7] rules at the output index that the first draft speaks about.
        pool_places: int64 [S] place of the first draft's distribution; -1 for a sequence that leaves none.
    """

    tokens: torch.Tensor
    positions: torch.Tensor
    is_wanted: torch.Tensor
    words: torch.Tensor
    pool_places: torch.Tensor


@triton_jit(do_not_specialize=["num_drafts", "max_new", "max_positions", "width", "slot_column", "num_fields"])
def anchor_drafts_kernel(
    new_tokens,
    num_tokens,
    contexts,
    rules,
    tokens,
    positions,
    is_wanted,
    words,
    pool_places,
    num_drafts,
    max_new,
    max_positions,
    width,
    slot_column,
    num_fields,
    FIELDS: tl.constexpr,
):
    """Program (sequence)."""
    seq = tl.program_id(0).to(tl.int64)
    count, context = tl.load(num_tokens + seq), tl.load(contexts + seq)
    place = tl.arange(0, FIELDS)
    word = tl.load(rules + seq * width + place, mask=place < num_fields, other=0)
    slot = tl.load(rules + seq * width + slot_column)
    newest = tl.load(new_tokens + seq * max_new + tl.maximum(count - 1, 0))
    last = context + count - 1
    wanted = (count > 0) & (last + num_drafts < max_positions)
    tl.store(tokens + seq, tl.where(wanted, newest, 0))
    tl.store(positions + seq, tl.where(wanted, last, 0))
    tl.store(is_wanted + seq, wanted)
    word += tl.where(place == INDEX, count, 0)
    tl.store(words + seq * num_fields + place, word, mask=place < num_fields)
    tl.store(pool_places + seq, tl.where(wanted & (slot >= 0), slot * num_drafts, -1))


def anchor_drafts(
    new: tuple[torch.Tensor, torch.Tensor],
    contexts: torch.Tensor,
    rules: torch.Tensor,
    *,
    slot_column: int,
    num_drafts: int,
    max_positions: int,
) -> DraftStarts:
    """Starts of sequences whose new tokens are known.

    Args:
        new: tokens int64 [., M] and their numbers int64 [.] of the first S sequences, contiguous.
        contexts: int64 [S] tokens in the caches before the step.
        rules: int64 [S, W] contiguous: each step's first row's rule in the first 7 columns.
        slot_column: of `rules`, with a slot of distributions, -1 for none.
        num_drafts: of a block, and of a slot.
        max_positions: no draft may stand at or behind this position.
    """
    tokens, positions, places = (torch.empty_like(contexts) for _ in range(3))
    is_wanted = torch.empty(contexts.shape, dtype=torch.bool, device=contexts.device)
    words = torch.empty((len(contexts), NUM_FIELDS), dtype=torch.int64, device=contexts.device)
    numbers = (num_drafts, new[0].shape[1], max_positions, rules.shape[1], slot_column, NUM_FIELDS)
    options = {"FIELDS": FIELD_PLACES, "num_warps": _NUM_WARPS, "enable_fp_fusion": False}
    if len(contexts):
        with torch.cuda.device_of(contexts):
            anchor_drafts_kernel[(len(contexts),)](
                *new, contexts, rules, tokens, positions, is_wanted, words, places, *numbers, **options
            )
    return DraftStarts(tokens, positions, is_wanted, words, places)


def kernel_specs(sizes: ModelSizes) -> list[TritonSpec]:
    """One for all models with drafts."""
    if not sizes.num_drafts:
        return []
    signature = (*["*i64"] * 6, "*u1", "*i64", "*i64", *["i32"] * 6)
    statics = {"FIELDS": FIELD_PLACES}
    return [TritonSpec("sampling.anchor_drafts", anchor_drafts_kernel, signature, statics, _NUM_WARPS)]
