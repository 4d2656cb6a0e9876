"""The draft pass behind a decode step, without the host: from the step's outcome to the drafts that follow it."""

from __future__ import annotations

import torch

from deepinfer.core.cache_tensors import CacheTensors
from deepinfer.core.decode_rows import DecodeRows
from deepinfer.core.device_outcome import DeviceOutcome
from deepinfer.core.draft_anchors import DraftAnchors
from deepinfer.models.deepseek_v41.draft_model import DraftModel
from deepinfer.sampling.draw_kinds import DrawKinds
from deepinfer.sampling.row_rules import INDEX_WORD
from deepinfer.sampling.row_words import RowWords
from deepinfer.sampling.step_rules import POOL_SLOT, StepRules
from deepinfer.sampling.step_sampler import StepSampler
from deepinfer.worker.draft_loop import draft_loop
from deepinfer.worker.draft_proposer import SCORE_LIMIT
from tilelang_ops.sampling.anchor_drafts import anchor_drafts
from tilelang_ops.sampling.leave_drafts import LeftDrafts, leave_drafts


class StepDrafter:
    """What `DraftProposer` does, for sequences that may be padding or get no drafts: they run along, and nothing of
    them is kept. Fixed shapes, nothing waits; may be captured in a graph, of which `DrawKinds` is then a part.

    Args:
        draft: loaded draft model.
        caches: allocated cache tensors.
        sampler: draws, and has the pool of distributions.
        temperatures: [G] confidence temperature per draft position.
        max_positions: no draft row may stand at or behind this position.
        device: where it all is.
    """

    def __init__(
        self,
        draft: DraftModel,
        caches: CacheTensors,
        sampler: StepSampler,
        temperatures: tuple[float, ...],
        max_positions: int,
        device: torch.device,
    ) -> None:
        self._draft = draft
        self._caches = caches
        self._sampler = sampler
        self._temperatures = torch.tensor(temperatures, dtype=torch.float64, device=device)
        self._max_positions = max_positions

    @property
    def num_drafts(self) -> int:
        """G."""
        return len(self._temperatures)

    def follow(self, rows: DecodeRows, rules: StepRules, kinds: DrawKinds, outcome: DeviceOutcome) -> None:
        """Run the draft model behind new tokens; writes `draft_ids` and `confidences` of `outcome`.

        Args:
            rows: of the step, with S sequences; only what it says of these is read.
            rules: of the S sequences.
            kinds: of these rules.
            outcome: its first S rows have tokens.
        """
        starts = anchor_drafts(
            (outcome.tokens, outcome.num_tokens),
            rows.context_lens,
            rules.values,
            slot_column=POOL_SLOT,
            num_drafts=self.num_drafts,
            max_positions=self._max_positions,
        )
        where = DraftAnchors(starts.tokens, starts.positions, rows.seq_slots, starts.is_wanted)
        block = self._draft.forward(where, self._caches, self.num_drafts)
        first = (RowWords(starts.words, kinds), starts.pool_places)
        ids, kept, scores = draft_loop(self._draft, block, self._sampler, starts.tokens, first)
        if self._sampler.pool is not None and kinds.draws:
            self._sampler.pool.store(rules, starts.pool_places >= 0, starts.words[:, INDEX_WORD], kept)
        left = LeftDrafts(outcome.draft_ids, outcome.confidences, outcome.columns)
        leave_drafts(ids, scores, starts.is_wanted, self._temperatures, left, limit=SCORE_LIMIT)
