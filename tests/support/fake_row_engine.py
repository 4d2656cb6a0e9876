"""An engine for tests of batch jobs: answers at once, in a shuffled order, with what its prompt says."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from deepinfer.batch.batch_job import BatchJob
from deepinfer.engine.engine_options import engine_config
from deepinfer.envs import EnvReport
from deepinfer.errors import RequestError
from deepinfer.outputs import CompletionOutput, RequestMetrics, RequestOutput


class FakeStats:
    """Figures of an engine that does everything in decode steps."""

    num_prefill_steps = 0
    num_prefill_tokens = 0
    num_decode_tokens = 0
    num_recomputed_tokens = 0
    num_preemptions = 0
    num_drafts_verified = 0
    num_drafts_accepted = 0
    kv_use = 0.25


class FakeRowEngine:
    """Its answer is a function of prompt, seed and number of tokens alone.

    Args:
        job: whose options it has.
        num_a_step: requests that end in a step.
        on_step: called with the number of the step before it ends anything; may raise.
    """

    def __init__(self, job: BatchJob, num_a_step: int = 3, on_step: Callable[[int], None] = lambda step: None) -> None:
        options = {name: value for name, value in job.engine_options({"max_num_seqs": 4}).items() if value is not None}
        config = engine_config(options, {}, EnvReport({}, {}, (), ()))
        self.config = config.resolve(job.model.config, "cpu")
        self.num_a_step = num_a_step
        self.on_step = on_step
        self.num_steps = 0
        self.prompts: list[list[int]] = []
        self.fails: Callable[[list[int]], str | None] = lambda ids: None

    def stats(self) -> FakeStats:
        return FakeStats()

    def queue(self) -> _FakeQueue:
        return _FakeQueue(self)


class _FakeQueue:
    def __init__(self, engine: FakeRowEngine) -> None:
        self._engine = engine
        self._open: dict[str, tuple[list[int], Any]] = {}
        self.most_open = 0

    def __enter__(self) -> _FakeQueue:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.clear()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, prompt: Any, sampling_params: Any = None, *, request_id: str | None = None) -> str:
        assert request_id is not None and request_id not in self._open
        self._engine.prompts.append(prompt["prompt_token_ids"])
        self._open[request_id] = (prompt["prompt_token_ids"], sampling_params)
        self.most_open = max(self.most_open, len(self._open))
        return request_id

    def poll(self) -> list[RequestOutput]:
        self._engine.on_step(self._engine.num_steps)
        self._engine.num_steps += 1
        names = random.Random(self._engine.num_steps).sample(list(self._open), min(self._engine.num_a_step, len(self)))
        return [self._output(name, *self._open.pop(name)) for name in names]

    def _output(self, name: str, ids: list[int], params: Any) -> RequestOutput:
        code = self._engine.fails(ids)
        if code is not None:
            return RequestOutput.failed(name, RequestError("it does not like the prompt", code=code), None, ids)
        draws = random.Random(params.seed)
        tokens = [draws.randrange(100) for _ in range(params.max_tokens)]
        completions = [
            CompletionOutput(i, f"{sum(ids)}:{tokens}", tokens, finish_reason="length") for i in range(params.n)
        ]
        metrics = RequestMetrics(1.0, 1.5, 2.0, 3.0, len(ids), len(tokens))
        return RequestOutput(name, None, ids, completions, metrics=metrics)
