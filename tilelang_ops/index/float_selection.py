"""The steps of a selection on float32 scores: any architecture, any size of the keys."""

from __future__ import annotations

import torch

from tilelang_ops.index.block_maxima import block_maxima
from tilelang_ops.index.index_scores import PagedKeys, index_scores
from tilelang_ops.index.select_topk import select_best_blocks, select_candidates, select_topk
from tilelang_ops.index.selection_rule import SelectionRule


class FloatSelection:
    """Steps of `select_entries`, see there for the tensors.

    Attributes:
        score_bytes: of a score.
    """

    score_bytes = 4

    def __init__(self, rule: SelectionRule) -> None:
        self._rule = rule

    def scores(
        self,
        q: torch.Tensor,
        head_weights: torch.Tensor,
        keys: PagedKeys,
        num_visible: torch.Tensor,
        candidates: torch.Tensor | None,
    ) -> torch.Tensor:
        """[T, columns] of all entries, or of those of the candidate blocks: -inf, or NaN, where none may be chosen."""
        rule = self._rule
        options = {"max_visible": rule.max_visible, "scale": rule.scale, "round_bf16": rule.round_bf16}
        options |= {"least": rule.least, "block_size": rule.block_size}
        return index_scores(q.to(torch.bfloat16), head_weights, keys, num_visible, candidates, **options)

    def picks(self, scores: torch.Tensor, num_visible: torch.Tensor, candidates: torch.Tensor | None) -> torch.Tensor:
        """int64 [T, topk]."""
        rule = self._rule
        if candidates is None:
            return select_topk(scores, num_visible, rule.topk)
        return select_candidates(scores, num_visible, candidates, rule.topk, block_size=rule.block_size)

    def maxima(self, scores: torch.Tensor, num_visible: torch.Tensor) -> torch.Tensor:
        """[T, blocks] best scores of blocks of entries; +inf for the newest."""
        return block_maxima(scores, num_visible, max_visible=scores.shape[1], block_size=self._rule.block_size)

    def blocks(self, maxima: torch.Tensor, num_visible: torch.Tensor) -> torch.Tensor:
        """int64 [T, num_blocks]."""
        rule = self._rule
        return select_best_blocks(maxima, num_visible, rule.num_blocks, block_size=rule.block_size, least=rule.least)
