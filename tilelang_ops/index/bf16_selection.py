"""The steps of a selection on bf16 scores that stay in registers while they are chosen from: the fast form of SM90."""

from __future__ import annotations

from typing import Self

import torch

from tilelang_ops.index.arrange_queries import arrange_queries
from tilelang_ops.index.block_maxima import block_maxima
from tilelang_ops.index.index_scores import PagedKeys
from tilelang_ops.index.key_words import WORDS_ARCH, takes_words
from tilelang_ops.index.row_scores import row_scores
from tilelang_ops.index.select_best import select_best
from tilelang_ops.index.selection_rule import SelectionRule
from tilelang_ops.index.tile_scores import takes_tiles, tile_scores
from tilelang_ops.jit.arch import arch_of

_MOST_CHOICES = 8192  # so that choosing from parts of many columns comes to an end
_SHARING_ROWS = 16  # rows a sequence, on average, from which on a tile's keys are kept for many rows


class Bf16Selection:
    """Steps of `select_entries`, like `FloatSelection`.

    Scores are made row by row, or a tile of keys for many rows when those share their sequences; the bits are the same,
    so that what a row gets does not depend on the others.
    """

    score_bytes = 2

    def __init__(self, rule: SelectionRule, is_shared: bool) -> None:
        self._rule, self._is_shared = rule, is_shared

    @classmethod
    def of(cls, rule: SelectionRule, q: torch.Tensor, keys: PagedKeys) -> Self | None:
        """None where the kernels do not take the sizes."""
        (num_rows, num_heads, dim), page = q.shape, keys.data.shape[1]
        is_aligned = keys.data.data_ptr() % 16 == 0 and page % 4 == 0 and rule.block_size % 4 == 0  # bulk copies
        fits = rule.round_bf16 and takes_words(num_heads, dim) and max(rule.topk, rule.num_blocks) <= _MOST_CHOICES
        if not (fits and is_aligned) or arch_of(q.device) != WORDS_ARCH:
            return None
        sequences = -(-keys.block_ids.shape[0] // -(-rule.max_visible // page))
        return cls(rule, takes_tiles(num_heads, dim) and num_rows >= _SHARING_ROWS * sequences)

    def scores(
        self,
        q: torch.Tensor,
        head_weights: torch.Tensor,
        keys: PagedKeys,
        num_visible: torch.Tensor,
        candidates: torch.Tensor | None,
    ) -> torch.Tensor:
        """See `FloatSelection.scores`; columns that cannot be chosen hold anything."""
        rule, q = self._rule, arrange_queries(q)
        options = {"max_visible": rule.max_visible, "scale": rule.scale, "least": rule.least}
        if candidates is None and self._is_shared:
            return tile_scores(q, head_weights, keys, num_visible, **options)
        return row_scores(q, head_weights, keys, num_visible, candidates, **options, block_size=rule.block_size)

    def picks(self, scores: torch.Tensor, num_visible: torch.Tensor, candidates: torch.Tensor | None) -> torch.Tensor:
        """int64 [T, topk]."""
        rule = self._rule
        if candidates is None:
            return select_best(scores, num_visible, rule.topk, num_columns=rule.max_visible, least=rule.topk)
        columns, size = rule.num_slots(candidates), rule.block_size
        return select_best(
            scores, num_visible, rule.topk, num_columns=columns, least=rule.topk, candidates=candidates, block_size=size
        )

    def maxima(self, scores: torch.Tensor, num_visible: torch.Tensor) -> torch.Tensor:
        """[T, blocks] best scores of blocks of entries; +inf for the newest."""
        return block_maxima(scores, num_visible, max_visible=self._rule.max_visible, block_size=self._rule.block_size)

    def blocks(self, maxima: torch.Tensor, num_visible: torch.Tensor) -> torch.Tensor:
        """int64 [T, num_blocks]."""
        rule = self._rule
        columns = -(-rule.max_visible // rule.block_size)
        options = {"num_columns": columns, "least": rule.least, "block_size": rule.block_size, "of_blocks": True}
        return select_best(maxima, num_visible, rule.num_blocks, **options)
