"""Sampling of a GPU's logits: plain rows by kernels, the others by the sampler for everything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch

from deepinfer.core.device_arrays import device_arrays
from deepinfer.core.engine_request import EngineRequest
from deepinfer.sampling.device_draws import draw_drafts, draw_tokens, judge
from deepinfer.sampling.draft_pool import DraftPool
from deepinfer.sampling.draw_kinds import DrawKinds
from deepinfer.sampling.proposed_draft import ProposedDraft
from deepinfer.sampling.row_rules import NUM_WORDS, is_drawn
from deepinfer.sampling.row_words import RowWords
from deepinfer.sampling.rule_table import RuleTable
from deepinfer.sampling.sampler import Sampler
from deepinfer.sampling.shortcut_sampler import ShortcutSampler
from deepinfer.sampling.step_rules import POOL_SLOT


class CudaSampler(ShortcutSampler):
    """`Sampler` with kernels for rows that nothing changes and nobody asks about: greedy ones, draws with temperature,
    top-p, top-k and min_p, and drafts to be judged by rejection. Both ways give the same tokens.

    Attributes:
        pool: what is known of the drafts of running sequences; None for coupled acceptance.

    Args:
        sampler: for all other rows.
        device: of the logits.
        pool: takes the distributions of drafts, for acceptance by rejection; None for coupled acceptance.
    """

    def __init__(self, sampler: Sampler, device: torch.device, pool: DraftPool | None = None) -> None:
        super().__init__(sampler)
        self._device = device
        self._table = RuleTable()
        self.pool = pool

    @property
    def num_ids(self) -> int:
        """Ids that may be drawn."""
        return self._sampler.num_valid_ids

    def add(self, request: EngineRequest) -> None:
        """Register a sequence; see `Sampler.add`."""
        self._sampler.add(request)
        self._table.add(request.seq_id, self._sampler.state_of(request.seq_id))

    def remove(self, seq_id: int) -> None:
        """Forget a sequence; unknown ones are ignored."""
        self._sampler.remove(seq_id)
        self._table.remove(seq_id)
        if self.pool is not None:
            self.pool.drop((seq_id,))

    def rules(self, seq_ids: Sequence[int], output_indices: Sequence[int]) -> RowWords:
        """How registered sequences [n] are sampled at these output indices [n]."""
        words = self._table.words(seq_ids, output_indices)
        (moved,) = device_arrays(self._device, words)
        return RowWords(moved, DrawKinds.of(words, self.num_ids))

    def fill_rules(self, seq_ids: Sequence[int], output_indices: np.ndarray, out: np.ndarray) -> tuple[bool, DrawKinds]:
        """Fill int64 out [P, RULE_WIDTH] for sequences [S] at output indices [S]; see `RuleTable.rows`.

        Drawn sequences get a slot in the pool, if there is one.

        Returns whether all rows are plain, and what any of them asks for.
        """
        is_plain = self._table.rows(seq_ids, output_indices, out)
        words = out[:, :NUM_WORDS]
        kinds = DrawKinds.of(words, self.num_ids)
        if self.pool is not None and kinds.draws:
            drawn = np.flatnonzero(is_drawn(words))
            out[drawn, POOL_SLOT] = self.pool.slots([seq_ids[row] for row in drawn.tolist()])
        return is_plain, kinds

    def propose(
        self, logits: torch.Tensor, seq_ids: Sequence[int], output_indices: Sequence[int], place: int
    ) -> list[ProposedDraft]:
        """Drafts with what rejection sampling needs of them; see `Sampler.propose`."""
        usable, rules = logits[:, : self.num_ids], self.rules(seq_ids, output_indices)
        if not rules.kinds.draws:
            best = draw_tokens(usable, rules, self.num_ids).tokens.clamp(min=0)
            return [ProposedDraft(token) for token in best.tolist()]
        weights = torch.empty(usable.shape, dtype=torch.float32, device=self._device)
        places = torch.arange(len(usable), device=self._device)
        ids, kept = draw_drafts(usable, rules, (weights, places), lane=place)
        return [
            # A view would keep all rows alive.
            ProposedDraft(token, weights[row].clone() if has_weights else None)
            for row, (token, has_weights) in enumerate(torch.stack((ids, kept.to(ids.dtype)), dim=1).tolist())
        ]

    def _short_way(
        self,
        logits: torch.Tensor,
        seq_ids: list[int],
        output_indices: list[int],
        drafts: Sequence[ProposedDraft | None],
    ) -> Iterable[tuple[int, int]]:
        states = [self._sampler.state_of(seq_id) for seq_id in seq_ids]
        plain = [row for row, state in enumerate(states) if state.is_plain(output_indices[row])]
        if not plain:
            return ()
        rows = logits if len(plain) == len(seq_ids) else logits[plain]
        rules = self.rules([seq_ids[row] for row in plain], [output_indices[row] for row in plain])
        return zip(plain, self._tokens(rows, rules, [drafts[row] for row in plain]), strict=True)

    def _tokens(self, logits: torch.Tensor, rules: RowWords, drafts: Sequence[ProposedDraft | None]) -> list[int]:
        """Tokens of plain rows, -1 for one that cannot be sampled; those with a draft that was drawn judge it."""
        drawn = draw_tokens(logits, rules, self.num_ids)
        weights: list[torch.Tensor] = []
        places, draft_ids = np.full(len(drafts), -1), np.zeros(len(drafts), dtype=np.int64)
        for row, draft in enumerate(drafts):
            if draft is not None and draft.weights is not None:
                places[row], draft_ids[row] = len(weights), draft.token_id
                weights.append(draft.weights)
        if weights:
            at, ids = device_arrays(self._device, places, draft_ids)
            judge(logits, rules, self.num_ids, drawn, (torch.stack(weights), at, ids))
        tokens: list[int] = drawn.tokens.tolist()
        return tokens
