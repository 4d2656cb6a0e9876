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
from deepinfer.sampling.step_rules import StepRules
from deepinfer.sampling.step_sampler import StepSampler
from deepinfer.worker.draft_loop import draft_loop
from deepinfer.worker.draft_proposer import SCORE_LIMIT


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
        num_seqs = len(rules.values)
        counts = outcome.num_tokens[:num_seqs]
        last = rows.context_lens + counts - 1
        is_wanted = (counts > 0) & (last + self.num_drafts < self._max_positions)
        newest = outcome.tokens[:num_seqs].gather(1, (counts - 1).clamp(min=0)[:, None])[:, 0]
        anchors, positions = torch.where(is_wanted, newest, 0), torch.where(is_wanted, last, 0)
        words = rules.words.clone(memory_format=torch.contiguous_format)
        words[:, INDEX_WORD] += counts  # the output index that the first draft speaks about
        in_pool = is_wanted & (rules.pool_slots >= 0)
        pool_places = torch.where(in_pool, rules.pool_slots * self.num_drafts, -1)
        where = DraftAnchors(anchors, positions, rows.seq_slots, is_wanted)
        block = self._draft.forward(where, self._caches, self.num_drafts)
        first = (RowWords(words, kinds), pool_places)
        ids, kept, scores = draft_loop(self._draft, block, self._sampler, anchors, first)
        if self._sampler.pool is not None and kinds.draws:
            self._sampler.pool.store(rules, in_pool, words[:, INDEX_WORD], kept)
        wanted = is_wanted[:, None]
        outcome.draft_ids[:num_seqs].copy_(torch.where(wanted, ids, -1))
        outcome.confidences[:num_seqs].copy_(torch.where(wanted, self._confidences(scores), 0.0))

    def _confidences(self, scores: torch.Tensor) -> torch.Tensor:
        """As `DraftProposer` has them: float32 [S, G] of scores float32 [S, G], in float64 in between."""
        scaled = (scores.to(torch.float64) / self._temperatures).clamp(-SCORE_LIMIT, SCORE_LIMIT)
        return (1.0 / (1.0 + torch.exp(-scaled.nan_to_num()))).to(torch.float32)
