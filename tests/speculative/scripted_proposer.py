"""Drafts by script: right or wrong at each place of a block as a pattern says, whatever the draft model thinks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from deepinfer import LLM
from deepinfer.core.step_plan import StepPlan
from deepinfer.core.step_result import SampledToken
from deepinfer.worker.draft_proposer import Proposals
from deepinfer.worker.native_decoder import DecodedStep, NativeDecoder

# (output index the block begins at, place in the block) -> whether the draft is right
Pattern = Callable[[int, int], bool]
PATTERNS: dict[str, Pattern] = {
    "all": lambda begin, place: True,
    "none": lambda begin, place: False,
    "every second": lambda begin, place: place % 2 == 0,
    "growing runs": lambda begin, place: place < begin % 9,  # 0 to 8 right ones before the first wrong one
}


class ScriptedProposer:
    """Takes the place of a runner's DraftProposer, and of the draft pass in its decoder.

    Args:
        texts: prompt -> the output that it is known to get.
        num_drafts, vocab_size: G, and the size of the vocabulary that wrong drafts come from.
        pattern: which drafts are right.
    """

    def __init__(
        self, texts: Mapping[tuple[int, ...], list[int]], num_drafts: int, vocab_size: int, pattern: Pattern
    ) -> None:
        self._texts = texts
        self._vocab_size = vocab_size
        self._pattern = pattern
        self._prompts: Callable[[int], np.ndarray] = lambda seq_id: np.zeros(0)
        self._decoder: NativeDecoder | None = None
        self.num_drafts = num_drafts
        self.num_decoded = 0  # steps that the decoder took

    def install(self, llm: LLM) -> None:
        """Make an engine use it."""
        worker = llm._runtime.worker
        assert worker._runner is not None
        chooser = worker._runner._chooser
        self._prompts = lambda seq_id: chooser.request_of(seq_id).prompt_token_ids
        self._decoder = worker._runner._decoder
        worker._runner._proposer = worker._runner._decoder = self  # type: ignore[assignment]

    def propose(self, plan: StepPlan, samples: list[list[SampledToken]], errors: dict[int, Exception]) -> Proposals:
        """Drafts for every sequence of the plan that samples."""
        rows = []
        for s in np.flatnonzero(plan.samples).tolist():
            text = self._texts[tuple(self._prompts(int(plan.seq_ids[s])).tolist())]
            begin = int(plan.output_indices[s]) + len(samples[s])
            row = [-1] * self.num_drafts
            for place, token in enumerate(text[begin : begin + self.num_drafts]):
                row[place] = token if self._pattern(begin, place) else (token + 1 + place) % self._vocab_size
            rows.append(row)
        ids = np.array(rows, dtype=np.int32).reshape(-1, self.num_drafts)
        return Proposals(ids, np.full(ids.shape, 0.5, dtype=np.float32))

    def takes(self, plan: StepPlan) -> bool:
        """As the decoder."""
        return self._decoder is not None and self._decoder.takes(plan)

    def sample(self, plan: StepPlan, num_drafts: int) -> DecodedStep | None:
        """Tokens by the decoder, drafts by the script."""
        step = None if self._decoder is None else self._decoder.sample(plan, 0)
        if step is None:
            return None
        self.num_decoded += 1
        samples = [[SampledToken(token_id) for token_id in tokens] for tokens in step.tokens]
        ids = self.propose(plan, samples, {}).draft_ids
        return replace(step, draft_ids=ids, draft_scores=np.zeros(ids.shape, dtype=np.float32))

    def take(self, draft_ids: np.ndarray, scores: np.ndarray) -> Proposals:
        """Drafts of `sample` as proposals."""
        return Proposals(draft_ids, np.full(draft_ids.shape, 0.5, dtype=np.float32))
