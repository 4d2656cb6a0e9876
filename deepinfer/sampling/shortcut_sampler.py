"""Sampling with a short way for plain rows, and the sampler for everything behind it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

from deepinfer.core.step_result import SampledToken
from deepinfer.sampling.proposed_draft import ProposedDraft
from deepinfer.sampling.sampler import Sampler


class ShortcutSampler(ABC):
    """What backends with a short way of their own share; both ways give the same tokens.

    Args:
        sampler: for all other rows.
    """

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    def sample(
        self,
        logits: Any,
        seq_ids: list[int],
        output_indices: list[int],
        generated_token_ids: Sequence[Sequence[int] | np.ndarray],
        drafts: Sequence[ProposedDraft | None] | None = None,
    ) -> list[SampledToken | Exception]:
        """One token per row of logits float32 [S, V]; see `Sampler.sample`."""
        results: list[SampledToken | Exception | None] = [None] * len(seq_ids)
        judged = drafts if drafts is not None else [None] * len(seq_ids)
        for row, token in self._short_way(logits, seq_ids, output_indices, judged):
            if token >= 0:  # otherwise the sampler says what is wrong
                results[row] = SampledToken(token)
        rest = [row for row, result in enumerate(results) if result is None]
        if rest:
            sampled = self._sampler.sample(
                torch.as_tensor(logits[rest]),
                [seq_ids[row] for row in rest],
                [output_indices[row] for row in rest],
                [generated_token_ids[row] for row in rest],
                [judged[row] for row in rest],
            )
            for row, result in zip(rest, sampled, strict=True):
                results[row] = result
        return [result for result in results if result is not None]

    @abstractmethod
    def _short_way(
        self,
        logits: Any,
        seq_ids: list[int],
        output_indices: list[int],
        drafts: Sequence[ProposedDraft | None],
    ) -> Iterable[tuple[int, int]]:
        """(row, token) of the rows that take the short way; a negative token where a row cannot be sampled."""
