"""Sampling of a whole decode step on the device: tokens of all rows, verdicts on drafts, and what counts of them."""

from __future__ import annotations

import torch

from deepinfer.core.decode_rows import DecodeRows
from deepinfer.core.device_outcome import DeviceOutcome
from deepinfer.sampling.device_draws import draw_drafts, draw_tokens, judge
from deepinfer.sampling.draft_pool import DraftPool
from deepinfer.sampling.draw_kinds import DrawKinds
from deepinfer.sampling.row_words import RowWords
from deepinfer.sampling.step_rules import FIRST_STOP_ID, IS_LIVE, MAX_STOP_IDS, StepRules
from tilelang_ops.sampling.accept_tokens import EndRules, NewTokens, StepTokens, accept_tokens
from tilelang_ops.sampling.spread_rules import spread_rules


class StepSampler:
    """What `TokenChooser` and a draft pass's loop do with plain rows, without the host: fixed shapes, nothing waits.

    Both may be captured in a graph; `DrawKinds` is then part of what the graph is for.

    Args:
        num_ids: ids the tokenizer has.
        pool: distributions of the drafts, for acceptance by rejection; None for coupled acceptance.
    """

    def __init__(self, num_ids: int, pool: DraftPool | None) -> None:
        self._num_ids = num_ids
        self._pool = pool

    @property
    def pool(self) -> DraftPool | None:
        """For acceptance by rejection, else None."""
        return self._pool

    def choose(
        self, logits: torch.Tensor, rows: DecodeRows, rules: StepRules, kinds: DrawKinds, outcome: DeviceOutcome
    ) -> None:
        """Write the step's new tokens into `outcome`; no drafts follow them yet.

        Args:
            logits: float32 [T, V] of all rows.
            rows: T rows of S sequences, padding among both.
            rules: of the S sequences.
            kinds: of these rules.
            outcome: its first S rows are written.
        """
        row_rules = RowWords(spread_rules(rules.values, rows.seqs, rows.first_rows), kinds)
        drawn = draw_tokens(logits, row_rules, self._num_ids)
        if self._pool is not None and kinds.draws:
            places, draft_ids = self._pool.places(rows, rules)
            judge(logits, row_rules, self._num_ids, drawn, (self._pool.weights, places, draft_ids))
        accept_tokens(
            StepTokens(drawn.tokens, rows.token_ids, rows.first_rows, rows.num_rows),
            EndRules(rules.values, IS_LIVE, FIRST_STOP_ID, MAX_STOP_IDS),
            NewTokens(outcome.tokens, outcome.num_tokens, outcome.draft_ids, outcome.confidences, outcome.columns),
        )

    def draft(
        self, logits: torch.Tensor, rules: RowWords, place: int, pool_places: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """One draft per row, at its place in the blocks; see `Sampler.draft` and `Sampler.propose`.

        Args:
            logits: float32 [n, V].
            rules: of each block's first draft.
            place: of the drafts in their blocks.
            pool_places: int64 [n] rows of the pool's weights for them, -1 for none.

        Returns:
            ids int64 [n], and the same with -1 for a draft that has left nothing in the pool.
        """
        usable = logits[:, : self._num_ids]
        if self._pool is None or not rules.kinds.draws:
            ids = draw_tokens(usable, rules, self._num_ids, index_offset=place).tokens.clamp(min=0)
            return ids, torch.full_like(ids, -1)
        kept = (self._pool.weights, pool_places)
        ids, has_weights = draw_drafts(usable, rules, kept, lane=place, index_offset=place)
        return ids, torch.where(has_weights, ids, -1)
