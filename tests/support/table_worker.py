"""A worker without a model: a table gives the next token, so that every output is known beforehand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from deepinfer.core.engine_request import EngineRequest
from deepinfer.core.probe import Probe
from deepinfer.core.step_plan import StepPlan
from deepinfer.core.step_result import PromptLogprobs, SampledToken, StepResult


def perm(token: int) -> int:
    """The PERM table: 10 -> 57 -> 36 -> 187 -> ..."""
    return (5 * token + 7) % 256


class TableWorker:
    """Samples ``table(last token)``; the log-probability of token t is -t / 1000.

    Attributes:
        live: sequences that were added and not released.
        plans: kind and rows of every executed plan.
        on_execute: called with the plan before it runs; may raise.
        errors: seq_id -> error that the next sample of this sequence ends with.
    """

    def __init__(self, table: Callable[[int], int] = perm) -> None:
        self.probe = Probe()
        self.live: dict[int, EngineRequest] = {}
        self.plans: list[tuple[str, int]] = []
        self.errors: dict[int, Exception] = {}
        self.on_execute: Callable[[StepPlan], None] = lambda plan: None
        self.closed = False
        self._table = table

    def add_request(self, request: EngineRequest) -> None:
        self.live[request.seq_id] = request

    def release(self, seq_ids: list[int]) -> None:
        for seq_id in seq_ids:
            self.live.pop(seq_id, None)

    def current_rows(self) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)

    def close(self) -> None:
        self.closed = True

    def execute(self, plan: StepPlan) -> StepResult:
        self.on_execute(plan)
        self.plans.append((plan.kind, len(plan.token_ids)))
        samples: list[list[SampledToken]] = []
        errors: dict[int, Exception] = {}
        for place, seq_id in enumerate(plan.seq_ids.tolist()):
            last = int(plan.token_ids[plan.cu_seqlens_q[place + 1] - 1])
            family = [seq_id, *plan.fork_seq_ids[plan.cu_forks[place] : plan.cu_forks[place + 1]].tolist()]
            failed = {one: self.errors[one] for one in family if one in self.errors and plan.samples[place]}
            errors.update(failed)
            if not plan.samples[place] or seq_id in failed:
                samples.append([])
            else:
                samples.append([_sampled(self._table(last), self.live[one]) for one in family])
        scores = [self._score(plan, place) for place in range(len(plan.seq_ids))]
        return StepResult(plan.step_id, samples, scores, errors)

    def _score(self, plan: StepPlan, place: int) -> PromptLogprobs | None:
        request = self.live[int(plan.seq_ids[place])]
        if request.score_start is None:
            return None
        rows = slice(plan.cu_seqlens_q[place], plan.cu_seqlens_q[place + 1])
        judged = plan.positions[rows] + 1
        keep = (judged >= request.score_start) & (judged < len(request.prompt_token_ids))
        if not keep.any():
            return None
        judged = judged[keep]
        targets = request.prompt_token_ids[judged]
        best = np.array([self._table(int(token)) for token in plan.token_ids[rows][keep]])
        logprobs = (-targets / 1000).astype(np.float32)
        ids = np.tile(best[:, None], (1, request.score_top_k)).astype(np.int32)
        return PromptLogprobs(
            int(judged[0]), logprobs, np.ones(len(judged), np.int32), best == targets, ids, (-ids / 1000).astype("f4")
        )


def _sampled(token: int, request: EngineRequest) -> SampledToken:
    if request.params.logprobs is None:
        return SampledToken(token)
    top = np.full(request.params.logprobs, token, np.int32)
    return SampledToken(token, -token / 1000, 1, top, (-top / 1000).astype(np.float32))
