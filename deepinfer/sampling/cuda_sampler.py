"""Sampling of a GPU's logits: plain rows by kernels, the others by the sampler for everything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from deepinfer.core.device_arrays import device_arrays
from deepinfer.core.engine_request import EngineRequest
from deepinfer.sampling.proposed_draft import ProposedDraft
from deepinfer.sampling.purpose import Purpose
from deepinfer.sampling.row_rules import INDEX_WORD, has_filters, is_drawn, row_rule
from deepinfer.sampling.sampler import Sampler
from deepinfer.sampling.shortcut_sampler import ShortcutSampler
from tilelang_ops.sampling.draw_rows import DrawnRows, draw_rows
from tilelang_ops.sampling.draw_weights import draw_weights
from tilelang_ops.sampling.judge_drafts import judge_drafts
from tilelang_ops.sampling.kept_weights import kept_weights
from tilelang_ops.sampling.row_rule import stream


@dataclass(frozen=True, slots=True)
class RowRules:
    """How n rows are sampled.

    Attributes:
        words: int64 [n, 7] on the device.
        is_drawn: bool [n]; the others take the argmax.
        has_filters: whether any row has top-p or top-k.
    """

    words: torch.Tensor
    is_drawn: np.ndarray
    has_filters: bool


class CudaSampler(ShortcutSampler):
    """`Sampler` with kernels for rows that nothing changes and nobody asks about: greedy ones, draws with temperature,
    top-p, top-k and min_p, and drafts to be judged by rejection. Both ways give the same tokens.

    Args:
        sampler: for all other rows.
        device: of the logits.
    """

    def __init__(self, sampler: Sampler, device: torch.device) -> None:
        super().__init__(sampler)
        self._device = device
        self._rules: dict[int, np.ndarray] = {}

    def add(self, request: EngineRequest) -> None:
        """Register a sequence; see `Sampler.add`."""
        self._sampler.add(request)
        state = self._sampler.state_of(request.seq_id)
        self._rules[request.seq_id] = row_rule(state.params, state.seed, state.prompt_hash)

    def remove(self, seq_id: int) -> None:
        """Forget a sequence; unknown ones are ignored."""
        self._sampler.remove(seq_id)
        self._rules.pop(seq_id, None)

    def rules(self, seq_ids: Sequence[int], output_indices: Sequence[int]) -> RowRules:
        """How registered sequences [n] are sampled at these output indices [n]."""
        words = np.stack([self._rules[seq_id] for seq_id in seq_ids])
        words[:, INDEX_WORD] = output_indices
        filters = has_filters(words, self._sampler.num_valid_ids)
        (moved,) = device_arrays(self._device, words)
        return RowRules(moved, is_drawn(words), filters)

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

    def draft(self, logits: torch.Tensor, rules: RowRules, index_offset: int) -> torch.Tensor:
        """Ids int64 [n], on the device, of drafts for coupled acceptance; see `Sampler.draft`.

        Args:
            logits: float32 [n, V].
            rules: of its rows.
            index_offset: added to their output indices.
        """
        usable = logits[:, : self._sampler.num_valid_ids]
        return self._draw(usable, rules, Purpose.SAMPLE, index_offset=index_offset).tokens.clamp_(min=0)

    def propose(
        self, logits: torch.Tensor, seq_ids: Sequence[int], output_indices: Sequence[int], place: int
    ) -> list[ProposedDraft]:
        """Drafts with what rejection sampling needs of them; see `Sampler.propose`."""
        num_ids = self._sampler.num_valid_ids
        usable, rules = logits[:, :num_ids], self.rules(seq_ids, output_indices)
        drawn = self._draw(usable, rules, Purpose.DRAFT, lane=place)
        if not rules.is_drawn.any():
            return [ProposedDraft(max(token, 0)) for token in drawn.tokens.tolist()]
        # In float32 before the draw: what is kept is then exactly what was drawn from.
        weights = kept_weights(usable, rules.words, num_ids, drawn).to(torch.float32)
        by_weight = draw_weights(weights, rules.words, stream_word=stream(Purpose.DRAFT, place))
        proposed = []
        for row, (best, token) in enumerate(torch.stack((drawn.tokens, by_weight), dim=1).tolist()):
            has_weights = rules.is_drawn[row] and best >= 0
            # A view would keep all rows alive.
            proposed.append(ProposedDraft(token, weights[row].clone()) if has_weights else ProposedDraft(max(best, 0)))
        return proposed

    def _tokens(self, logits: torch.Tensor, rules: RowRules, drafts: Sequence[ProposedDraft | None]) -> list[int]:
        """Tokens of plain rows, -1 for one that cannot be sampled; those with a draft that was drawn judge it."""
        drawn = self._draw(logits, rules, Purpose.SAMPLE)
        judging = [
            row
            for row, draft in enumerate(drafts)
            if draft is not None and draft.weights is not None and rules.is_drawn[row]
        ]
        if judging:
            chosen = [draft for row in judging if (draft := drafts[row]) is not None]
            token_ids = np.array([draft.token_id for draft in chosen])
            places, proposed = device_arrays(self._device, np.array(judging), token_ids)
            parts = (drawn.tokens, drawn.cuts, drawn.maxima, drawn.best)
            own = DrawnRows(*(part[places] for part in parts))
            words = rules.words[places]
            verdicts = judge_drafts(
                kept_weights(logits[places], words, self._sampler.num_valid_ids, own),
                torch.stack([draft.weights for draft in chosen if draft.weights is not None]),
                proposed,
                words,
            )
            drawn.tokens[places] = torch.where(own.tokens >= 0, verdicts, -1)
        tokens: list[int] = drawn.tokens.tolist()
        return tokens

    def _draw(
        self, logits: torch.Tensor, rules: RowRules, purpose: Purpose, *, lane: int = 0, index_offset: int = 0
    ) -> DrawnRows:
        return draw_rows(
            logits,
            rules.words,
            self._sampler.num_valid_ids,
            stream_word=stream(purpose, lane),
            index_offset=index_offset,
            draws=bool(rules.is_drawn.any()),
            filters=rules.has_filters,
        )
