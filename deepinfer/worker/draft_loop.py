"""The sequential loop of the draft heads without the host."""

from __future__ import annotations

import torch

from deepinfer.models.deepseek_v41.draft_model import DraftBlock, DraftModel
from deepinfer.sampling.row_words import RowWords
from deepinfer.sampling.step_sampler import StepSampler


def draft_loop(
    draft: DraftModel,
    block: DraftBlock,
    sampler: StepSampler,
    anchors: torch.Tensor,
    rules: tuple[RowWords, torch.Tensor],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Every row of a block draws from its adjusted logits, then the next follows.

    Args:
        draft: the draft model, which has run over `block`.
        block: R requests, G rows each.
        sampler: draws.
        anchors: int64 [R] token before the first row.
        rules: of each first draft, and its place in the pool int64 [R], -1 for a request that leaves nothing there.

    Returns:
        ids int64 [R, G], the same with -1 for drafts that have left nothing in the pool, and confidence scores float32
        [R, G] before temperature and sigmoid.
    """
    words, pool_places = rules
    previous, ids, kept, scores = anchors, [], [], []
    for place in range(block.base_logits.shape[1]):
        adjusted, row_scores = draft.adjust(block, place, previous)
        places = torch.where(pool_places >= 0, pool_places + place, -1)
        previous, in_pool = sampler.draft(adjusted, words, place, places)
        ids.append(previous)
        kept.append(in_pool)
        scores.append(row_scores)
    return torch.stack(ids, dim=1), torch.stack(kept, dim=1), torch.stack(scores, dim=1)
