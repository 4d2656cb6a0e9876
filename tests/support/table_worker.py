"""A worker without a model: a table gives the next token, so that every output is known beforehand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from deepinfer.core.device_stream import DeviceStream, Launched
from deepinfer.core.engine_request import EngineRequest
from deepinfer.core.launched_step import LaunchedStep
from deepinfer.core.probe import Probe
from deepinfer.core.step_plan import StepPlan
from deepinfer.core.step_result import PromptLogprobs, SampledToken, StepResult
from deepinfer.worker.inline_stream import InlineStream


def perm(token: int) -> int:
    """The PERM table: 10 -> 57 -> 36 -> 187 -> ..."""
    return (5 * token + 7) % 256


class TableWorker:
    """Samples ``table(last token)``; the log-probability of token t is -t / 1000.

    Attributes:
        stream: the device; adding, releasing and both phases of a step go through it.
        live: sequences that were added and not released.
        plans: kind and rows of every executed plan.
        on_execute: called with the plan before it runs, on the device; may raise.
        errors: seq_id -> error that the next sample of this sequence ends with.
    """

    def __init__(self, table: Callable[[int], int] = perm, stream: DeviceStream | None = None) -> None:
        self.probe = Probe()
        self.stream: DeviceStream = stream or InlineStream()
        self.live: dict[int, EngineRequest] = {}
        self.plans: list[tuple[str, int]] = []
        self.errors: dict[int, Exception] = {}
        self.on_execute: Callable[[StepPlan], None] = lambda plan: None
        self.closed = False
        self._table = table
        self._forward: Launched[None]
        self._forwarded = -1
        self._outcome: tuple[Any, StepResult] | None = None

    def add_request(self, request: EngineRequest) -> None:
        self.stream.call(lambda: self.live.update({request.seq_id: request}))

    def release(self, seq_ids: list[int]) -> None:
        ended = list(seq_ids)
        self.stream.launch(lambda: [self.live.pop(seq_id, None) for seq_id in ended])

    def current_rows(self) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)

    def close(self) -> None:
        self.stream.close()
        self.closed = True

    def drain(self) -> None:
        self.stream.drain()

    def execute(self, plan: StepPlan) -> LaunchedStep:
        self.launch_forward(plan)
        step = self.launch_sample(plan)
        step.wait()
        return step

    def launch_forward(self, plan: StepPlan) -> None:
        self._forward = self.stream.launch(lambda: self._run_forward(plan))

    def launch_sample(self, plan: StepPlan) -> LaunchedStep:
        return LaunchedStep(self._forward, self.stream.launch(lambda: self._run_sample(plan)))

    def _run_forward(self, plan: Any) -> None:
        self._forwarded = -1
        if plan.previous_step_id >= 0:
            assert self._outcome is not None and self._outcome[0].step_id == plan.previous_step_id
            previous, result = self._outcome
            plan = plan.resolve(previous, *result.flat_tokens(), result.draft_ids, result.confidences)
        self.on_execute(plan)
        self.plans.append((plan.kind, len(plan.token_ids)))
        self._forwarded = plan.step_id

    def _run_sample(self, plan: Any) -> StepResult:
        assert plan.previous_step_id < 0 and self._forwarded == plan.step_id
        result = self._sample(plan)
        self._outcome = plan, result
        return result

    def _sample(self, plan: StepPlan) -> StepResult:
        samples: list[list[SampledToken]] = []
        errors: dict[int, Exception] = {}
        for place, seq_id in enumerate(plan.seq_ids.tolist()):
            last = int(plan.token_ids[plan.cu_seqlens_q[place + 1] - 1])
            family = [seq_id, *plan.fork_seq_ids[plan.cu_forks[place] : plan.cu_forks[place + 1]].tolist()]
            failed = {one: self.errors[one] for one in family if one in self.errors and plan.samples[place]}
            errors.update(failed if seq_id in self.live else {})
            if not plan.samples[place] or seq_id in failed or seq_id not in self.live:
                samples.append([])
            else:
                samples.append([_sampled(self._table(last), self.live[one]) for one in family])
        scores = [self._score(plan, place) for place in range(len(plan.seq_ids))]
        return StepResult(plan.step_id, samples, scores, errors)

    def _score(self, plan: StepPlan, place: int) -> PromptLogprobs | None:
        request = self.live.get(int(plan.seq_ids[place]))
        if request is None or request.score_start is None:
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
