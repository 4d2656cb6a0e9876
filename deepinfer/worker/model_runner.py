"""Runs one step plan: forward pass, prompt scoring, sampling."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import torch

from deepinfer.core.cache_tensors import CacheTensors
from deepinfer.core.engine_request import EngineRequest
from deepinfer.core.probe import Probe
from deepinfer.core.step_plan import StepPlan
from deepinfer.core.step_result import PromptLogprobs, SampledToken, StepResult
from deepinfer.errors import RequestError
from deepinfer.models.deepseek_v41.model import DeepSeekV41Model
from deepinfer.sampling.prompt_logprobs import concatenate_prompt_logprobs, prompt_logprobs, rows_per_block
from deepinfer.sampling.sampler import Sampler
from deepinfer.worker.batch_builder import build_batch
from deepinfer.worker.cache_copies import copy_cache_units

_FAILED: Final = SampledToken(token_id=0)  # stands for the token that a failed fork did not get


@dataclass(slots=True)
class _Sequence:
    """What the runner remembers of a live sequence: its request and the tokens it has given it so far."""

    request: EngineRequest
    output_ids: list[int] = field(default_factory=list)


class ModelRunner:
    """Owns the model, the caches and the sampler; keeps no scheduling state.

    Args:
        model: loaded target model.
        caches: allocated cache tensors.
        sampler: row-wise sampler.
        probe: research hooks, shared with the engine.
        num_ngrams: n-gram context length of the model, 0 without Engram.
        num_valid_ids: ids the tokenizer has.
        device: where the forward pass runs.
    """

    def __init__(
        self,
        model: DeepSeekV41Model,
        caches: CacheTensors,
        sampler: Sampler,
        probe: Probe,
        num_ngrams: int,
        num_valid_ids: int,
        device: torch.device,
    ) -> None:
        self._model = model
        self._caches = caches
        self._sampler = sampler
        self._probe = probe
        self._num_ngrams = num_ngrams
        self._num_valid_ids = num_valid_ids
        self._device = device
        self._sequences: dict[int, _Sequence] = {}

    def add(self, request: EngineRequest) -> None:
        """Make a sequence known before the first plan that names it."""
        self._sequences[request.seq_id] = _Sequence(request)
        self._sampler.add(request)

    def release(self, seq_ids: list[int]) -> None:
        """Forget ended sequences; unknown ids are ignored."""
        for seq_id in seq_ids:
            if self._sequences.pop(seq_id, None) is not None:
                self._sampler.remove(seq_id)

    def execute(self, plan: StepPlan) -> StepResult:
        """One forward pass over the plan, then prompt scores and new tokens of its sequences."""
        sampled = np.flatnonzero(plan.samples)
        sample_rows = (plan.cu_seqlens_q[1:] - 1)[sampled].astype(np.int64)
        scored = [self._scored_rows(plan, s) for s in range(len(plan.seq_ids))]
        logit_rows = np.unique(np.concatenate([sample_rows, *scored]).astype(np.int64))

        copy_cache_units(self._caches, plan.slot_copies, plan.block_copies)
        batch = build_batch(plan, logit_rows, self._num_ngrams, self._device)
        hidden = self._model.forward(batch, self._caches, self._probe)

        def hidden_of(rows: np.ndarray) -> torch.Tensor:
            return hidden[torch.from_numpy(np.searchsorted(logit_rows, rows)).to(self._device)]

        errors: dict[int, Exception] = {}
        scores = [self._score(plan, s, rows, hidden_of(rows), errors) for s, rows in enumerate(scored)]
        samples = self._sample(plan, sampled, hidden_of(sample_rows), errors)
        return StepResult(plan.step_id, samples, scores, errors)

    def _scored_rows(self, plan: StepPlan, s: int) -> np.ndarray:
        """Rows of sequence s that judge a wanted prompt token (row at p judges the token at p + 1)."""
        request = self._sequences[int(plan.seq_ids[s])].request
        first_row, end_row = int(plan.cu_seqlens_q[s]), int(plan.cu_seqlens_q[s + 1])
        if request.score_start is None:
            return np.empty(0, dtype=np.int64)
        position = int(plan.context_lens[s])
        begin = max(first_row, first_row + request.score_start - 1 - position)
        end = min(end_row, first_row + len(request.prompt_token_ids) - 1 - position)
        return np.arange(begin, max(begin, end), dtype=np.int64)

    def _score(
        self,
        plan: StepPlan,
        s: int,
        rows: np.ndarray,
        hidden: torch.Tensor,
        errors: dict[int, Exception],
    ) -> PromptLogprobs | None:
        """Scores of sequence s's wanted prompt tokens, in blocks so that logits never exist for all of them at once."""
        if not len(rows):
            return None
        request = self._sequences[int(plan.seq_ids[s])].request
        start = int(plan.positions[rows[0]]) + 1
        targets = torch.from_numpy(request.prompt_token_ids[start : start + len(rows)].astype(np.int64))
        block = rows_per_block(self._model.vocab_size)
        try:
            return concatenate_prompt_logprobs(
                [
                    prompt_logprobs(
                        self._model.logits(hidden[begin : begin + block]),
                        targets[begin : begin + block].to(self._device),
                        start=start + begin,
                        num_top=request.score_top_k,
                        num_valid_ids=self._num_valid_ids,
                    )
                    for begin in range(0, len(rows), block)
                ]
            )
        except RequestError as error:
            errors[request.seq_id] = error
            return None

    def _sample(
        self, plan: StepPlan, sampled: np.ndarray, hidden: torch.Tensor, errors: dict[int, Exception]
    ) -> list[list[SampledToken]]:
        """One token for every sequence whose last row is complete, and one for each fork that begins there."""
        samples: list[list[SampledToken]] = [[] for _ in plan.seq_ids]
        if not len(sampled):
            return samples
        logits = self._model.logits(hidden)
        self._probe.record("logits", logits, torch.from_numpy((plan.cu_seqlens_q[1:] - 1)[sampled].astype(np.int64)))
        chosen = self._choose(logits, plan.seq_ids[sampled].tolist(), plan.output_indices[sampled].tolist(), errors)
        for row, (s, token) in enumerate(zip(sampled.tolist(), chosen, strict=True)):
            if token is None:
                continue
            fork_ids = plan.fork_seq_ids[plan.cu_forks[s] : plan.cu_forks[s + 1]].tolist()
            same_row = logits[row : row + 1].expand(len(fork_ids), -1)
            forked = self._choose(same_row, fork_ids, [0] * len(fork_ids), errors) if fork_ids else []
            samples[s] = [token, *(_FAILED if first is None else first for first in forked)]
        return samples

    def _choose(
        self, logits: torch.Tensor, seq_ids: list[int], indices: list[int], errors: dict[int, Exception]
    ) -> list[SampledToken | None]:
        """The next token of each sequence, noted as part of its output; None with an error."""
        sequences = [self._sequences[seq_id] for seq_id in seq_ids]
        for sequence, index in zip(sequences, indices, strict=True):
            del sequence.output_ids[index:]  # a step that is repeated has noted its token already
        outcomes = self._sampler.sample(logits, seq_ids, indices, [sequence.output_ids for sequence in sequences])
        chosen: list[SampledToken | None] = []
        for seq_id, sequence, outcome in zip(seq_ids, sequences, outcomes, strict=True):
            if isinstance(outcome, Exception):
                errors.setdefault(seq_id, outcome)
            if isinstance(outcome, Exception) or seq_id in errors:
                chosen.append(None)
                continue
            sequence.output_ids.append(outcome.token_id)
            chosen.append(outcome)
        return chosen
