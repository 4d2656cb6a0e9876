"""Runs on a rank: requests that come, fail and are given up at certain steps of all ranks."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, NamedTuple

import pytest
import torch

from deepinfer import SamplingParams
from deepinfer.config.engine_config import EngineConfig
from deepinfer.engine.runtime import EngineRuntime
from deepinfer.envs import read_environment
from tests.distributed.rank_engine import Request, open_engine
from tests.support.static_engine import static_engine


class Event(NamedTuple):
    """At a step, counted from 0, rank `owner` gets a request, or hears of its abort (None)."""

    step: int
    owner: int
    number: int
    request: Request | None


def spoil(token_ids: list[int], logits: torch.Tensor) -> torch.Tensor:
    """Logits processor whose result no token can be drawn from, from the third token on: its request fails."""
    return torch.full_like(logits, torch.nan) if len(token_ids) > 2 else logits


def live_through(
    rank: int, is_static: bool, model: str, sizes: dict[str, int], options: dict[str, Any], events: list[Event]
) -> tuple[dict[int, Any], tuple[int, ...]]:
    """Outputs by number, and what is still held behind the last step: running and waiting requests, blocks, slots."""
    with pytest.MonkeyPatch.context() as patch, static_engine(patch) if is_static else nullcontext():
        runtime = open_engine(rank, model, sizes, options)
        engine, outputs, coming, step = runtime.engine, {}, sorted(events), 0
        while coming or not engine.is_idle:
            step = max(step, coming[0].step) if engine.is_idle else step
            while coming and coming[0].step <= step:
                event = coming.pop(0)
                engine.wake(len(events) - len(coming))
                if event.owner == rank:
                    _begin(runtime, event)
            _take(engine.step(), outputs)
            engine._scheduler.check()
            step += 1
        stats = engine.stats()
        engine.close()
    blocks, slots = stats.num_blocks - stats.num_free_blocks, stats.num_state_slots - stats.num_free_state_slots
    return outputs, (stats.num_running, stats.num_waiting, blocks, slots)


def live_alone(model: str, options: dict[str, Any], events: list[Event]) -> dict[int, Any]:
    """Outputs of one engine that gets all requests at once, is told of no abort and does one step after the other."""
    config = EngineConfig.create(model=model, **options | {"overlap": False})
    runtime = EngineRuntime.build(config, read_environment())
    outputs: dict[int, Any] = {}
    for event in events:
        if event.request is not None:
            _begin(runtime, event)
    while runtime.engine.has_unfinished_requests():
        _take(runtime.engine.step(), outputs)
    runtime.engine.close()
    return outputs


def _begin(runtime: EngineRuntime, event: Event) -> None:
    if event.request is None:
        runtime.engine.abort_request(str(event.number))
        return
    ids, params = event.request
    encoded = runtime.encoder.encode({"prompt_token_ids": ids})
    request = runtime.inputs.generation(str(event.number), event.number, encoded, SamplingParams(**params))
    runtime.engine.add_request(request)


def _take(ready: Any, outputs: dict[int, Any]) -> None:
    while ready.finished:
        output = ready.finished.popleft()
        ended = [(choice.token_ids, choice.finish_reason) for choice in output.outputs]
        outputs[int(output.request_id)] = ended if output.error is None else output.error.code
