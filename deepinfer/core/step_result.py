"""What one executed step gives back: values only."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from deepinfer.core.step_ms import StepMs


@dataclass(frozen=True, slots=True)
class SampledToken:
    """One chosen token. Filled by the sampler.

    Attributes:
        token_id: the token.
        logprob: natural log-probability in the request's logprobs_mode; None when not requested.
        rank: 1-based rank of the token (1 = most likely; ties by lower id); 0 when not requested.
        top_ids: int32 [k] best ids, best first (k as requested; None when not requested).
        top_logprobs: float32 [k].
        grammar_complete: whether the output up to here is a whole value of the request's grammar; None without one.
        stops: whether it ends a structured sequence as one of the request's own stop ids.
    """

    token_id: int
    logprob: float | None = None
    rank: int = 0
    top_ids: np.ndarray | None = None
    top_logprobs: np.ndarray | None = None
    grammar_complete: bool | None = None
    stops: bool = False


@dataclass(frozen=True, slots=True)
class PromptLogprobs:
    """Raw log-probabilities of consecutive prompt positions of one sequence. Filled by the model runner.

    Attributes:
        start: first judged position (its token given the tokens before it), >= 1.
        logprobs: float32 [n] of the prompt's own tokens.
        ranks: int32 [n], 1-based.
        greedy: bool [n], whether the token is the argmax (lowest id on ties).
        top_ids: int32 [n, k] best ids or None; with k = vocabulary, ids are implied and None.
        top_logprobs: float32 [n, k] or None; [n, vocab] in id order when the whole vocabulary was asked for.
    """

    start: int
    logprobs: np.ndarray
    ranks: np.ndarray
    greedy: np.ndarray
    top_ids: np.ndarray | None = None
    top_logprobs: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class StepResult:
    """Outcome of a step, aligned with the plan's sequences.

    Attributes:
        step_id: the plan's number.
        samples: one list per sequence of the plan: its new tokens in order, empty for unfinished prefill chunks and
            after an error. Where the plan lists forks, the first token of each follows in their order; that of a fork
            with an error of its own is a placeholder.
        prompt_logprobs: per sequence, or None.
        errors: seq_id -> what went wrong with that sequence alone (no token was sampled for it); a SequenceEnd says
            that it is complete.
        draft_ids: int32 [D, G] drafts for the next step, a row for each sequence that samples and behind it one for
            each of its forks; -1 for none. None when no draft pass ran.
        confidences: float32 [D, G] of the drafts.
        ms: what the parts of the step took; None unless a measured cost curve is corrected by it.
    """

    step_id: int
    samples: list[list[SampledToken]]
    prompt_logprobs: list[PromptLogprobs | None]
    errors: dict[int, Exception] = field(default_factory=dict)
    draft_ids: np.ndarray | None = None
    confidences: np.ndarray | None = None
    ms: StepMs | None = None

    def flat_tokens(self) -> tuple[np.ndarray, np.ndarray]:
        """New tokens int32 of all sequences, one behind the other, and prefix sums int32 [S+1] of their numbers."""
        tokens = [token.token_id for samples in self.samples for token in samples]
        bounds = np.fromiter(accumulate(map(len, self.samples), initial=0), np.int32, len(self.samples) + 1)
        return np.asarray(tokens, dtype=np.int32), bounds
