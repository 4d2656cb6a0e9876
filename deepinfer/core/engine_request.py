"""One sequence of work as the engine core sees it: ids only, no text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from deepinfer.core.banned_words import BannedWords
from deepinfer.core.constraint import Constraint
from deepinfer.core.grammar_matcher import GrammarMatcher
from deepinfer.sampling_params import SamplingParams


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """Made by the input processor; read by engine, worker and sampler.

    Attributes:
        seq_id: engine-wide unique number of this sequence.
        request_id: public id.
        choice: index of this sequence among the n of its request.
        prompt_token_ids: int32 [prompt_len].
        params: validated sampling parameters.
        seed: 64-bit request seed (given, or derived from engine seed and running number).
        max_tokens: effective limit of new tokens (0: score only).
        stop_token_ids: ids that end the sequence, EOS included unless ignored.
        score_start: first prompt position whose log-probability is wanted, None when none is.
        score_top_k: best alternatives per scored prompt position; -1 the whole vocabulary.
        forks: choices 1 .. n-1 of choice 0, which alone is prefilled; empty for every other.
        constraint: grammar asked for, None for free text.
        banned_words: `params.bad_words` in a form for the sampler, None without any.
        prefix_id: saved prefix to begin on, None without one.
        new_matcher: makes a fresh matcher of the compiled grammar; None without one, and until it is compiled.
    """

    seq_id: int
    request_id: str
    choice: int
    prompt_token_ids: np.ndarray
    params: SamplingParams
    seed: int
    max_tokens: int
    stop_token_ids: tuple[int, ...]
    score_start: int | None
    score_top_k: int
    forks: tuple[EngineRequest, ...] = ()
    constraint: Constraint | None = None
    banned_words: BannedWords | None = None
    prefix_id: int | None = None
    new_matcher: Callable[[], GrammarMatcher] | None = None

    def on_prefix(self, prefix_id: int) -> EngineRequest:
        """The same request, its choices too, beginning on a saved prefix."""
        forks = tuple(replace(fork, prefix_id=prefix_id) for fork in self.forks)
        return replace(self, prefix_id=prefix_id, forks=forks)

    @property
    def choices(self) -> tuple[EngineRequest, ...]:
        """Every choice of the request, this one first."""
        return (self, *self.forks)
