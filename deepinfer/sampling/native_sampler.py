"""Sampling of a native model's logits: plain rows natively, the others by the sampler for everything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch

from deepinfer._C import cpu
from deepinfer.core.engine_request import EngineRequest
from deepinfer.sampling.fixed_point import FRACTION_BITS
from deepinfer.sampling.proposed_draft import ProposedDraft
from deepinfer.sampling.row_state import RowState
from deepinfer.sampling.sampler import Sampler
from deepinfer.sampling.shortcut_sampler import ShortcutSampler
from deepinfer.sampling.transform import MAX_TEMPERATURE


class NativeSampler(ShortcutSampler):
    """`Sampler` with a short way for rows that nothing changes and nobody asks about: greedy ones, and draws with
    temperature, top-p, top-k and min_p. Both ways give the same tokens.

    Attributes:
        rows: the native sampler; knows every sequence's parameters and keys, for drafts as well.

    Args:
        sampler: for all other rows.
        context: threads and kernels.
    """

    def __init__(self, sampler: Sampler, context: cpu.Context) -> None:
        super().__init__(sampler)
        self._context = context
        self.rows = cpu.RowSampler(sampler.num_valid_ids)

    def add(self, request: EngineRequest) -> None:
        """Register a sequence; see `Sampler.add`."""
        self._sampler.add(request)
        _add_rule(self.rows, request.seq_id, self._sampler.state_of(request.seq_id))

    def remove(self, seq_id: int) -> None:
        """Forget a sequence; unknown ones are ignored."""
        self._sampler.remove(seq_id)
        self.rows.remove(seq_id)

    def _short_way(
        self,
        logits: np.ndarray,
        seq_ids: list[int],
        output_indices: list[int],
        drafts: Sequence[ProposedDraft | None],
    ) -> Iterable[tuple[int, int]]:
        plain = [row for row, seq_id in enumerate(seq_ids) if self._is_plain(seq_id, output_indices[row], drafts[row])]
        if not plain:
            return ()
        rows = logits if len(plain) == len(seq_ids) else logits[plain]
        ids, indices = [seq_ids[row] for row in plain], [output_indices[row] for row in plain]
        return zip(plain, self.rows.sample(self._context, rows, ids, indices), strict=True)

    def propose(
        self, logits: np.ndarray, seq_ids: Sequence[int], output_indices: Sequence[int], place: int
    ) -> list[ProposedDraft]:
        """Drafts with what rejection sampling needs of them; see `Sampler.propose`."""
        return self._sampler.propose(torch.from_numpy(logits), seq_ids, output_indices, place)

    def _is_plain(self, seq_id: int, output_index: int, draft: ProposedDraft | None) -> bool:
        is_judged = draft is not None and draft.weights is not None
        return not is_judged and self._sampler.state_of(seq_id).is_plain(output_index)


def _add_rule(rows: cpu.RowSampler, seq_id: int, state: RowState) -> None:
    params = state.params
    if state.takes_argmax:
        rows.add_greedy(seq_id, plain_from=state.plain_from, stop_ids=state.stop_ids)
        return
    rows.add(
        seq_id,
        (state.seed, state.prompt_hash),
        temperature=min(params.temperature, MAX_TEMPERATURE),
        min_weight=int(params.min_p * 2**FRACTION_BITS),
        top_p=params.top_p,
        top_k=max(params.top_k, 0),
        plain_from=state.plain_from,
        stop_ids=state.stop_ids,
    )
