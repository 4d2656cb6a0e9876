"""`select_entries` on a GPU."""

from __future__ import annotations

import torch

from deepinfer.core.cache_spec import KVRounding
from deepinfer.core.paged_entries import PagedEntries
from deepinfer.core.selection import Selection
from deepinfer.ops import reference
from tilelang_ops.index.index_scores import PagedKeys
from tilelang_ops.index.select_entries import select_entries as select
from tilelang_ops.index.selection_rule import SelectionRule


def select_entries(
    q: torch.Tensor,
    head_weights: torch.Tensor,
    entries: PagedEntries,
    num_visible: torch.Tensor,
    candidates: torch.Tensor | None,
    *,
    max_visible: int,
    topk: int,
    scale: float,
    round_bf16: bool,
    block_size: int,
    num_blocks: int,
    with_margins: bool,
) -> Selection:
    """See `Ops.select_entries`; keys that are not packed, and float32 numerics, take the reference's form."""
    rule = SelectionRule(max_visible, topk, scale, round_bf16, block_size, num_blocks, with_margins)
    key_format = entries.cache.format
    if not (round_bf16 and key_format.packed and key_format.rounding is KVRounding.FP4_GROUP32):
        return reference.select_entries(
            q,
            head_weights,
            entries,
            num_visible,
            candidates,
            max_visible=max_visible,
            topk=topk,
            scale=scale,
            round_bf16=round_bf16,
            block_size=block_size,
            num_blocks=num_blocks,
            with_margins=with_margins,
        )
    keys = PagedKeys(entries.cache.data, entries.block_ids, entries.first_block)
    chosen = select(q, head_weights.float(), keys, num_visible, candidates, rule)
    return Selection(chosen.picks, chosen.blocks, chosen.margin, chosen.block_margin)
