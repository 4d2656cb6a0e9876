"""Runs the same requests on one engine, or on the ranks of a world, step by step until all are idle."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from deepinfer import SamplingParams
from deepinfer.config.engine_config import EngineConfig
from deepinfer.config.parallel_config import ParallelConfig
from deepinfer.distributed.rank_groups import RankGroups
from deepinfer.engine.runtime import EngineRuntime
from deepinfer.engine.traced_steps import traced_steps
from deepinfer.envs import read_environment
from deepinfer.profile.step_trace import StepTrace
from tests.distributed.rank_world import device_of

Request = tuple[list[int], dict[str, Any]]


@dataclass(frozen=True)
class RankCase:
    """What the ranks of a world run.

    Attributes:
        model: directory; None: the bundled one.
        sizes: options of parallelism.
        options: others of the engine.
        requests: of all ranks.
        owners: the replica of each request.
    """

    model: str | None
    sizes: dict[str, int]
    options: dict[str, Any]
    requests: list[Request]
    owners: list[int]


def run_alone(model: str | None, options: dict[str, Any], requests: list[Request]) -> list[dict[str, Any]]:
    """What one engine by itself gives, one step after the other."""
    config = EngineConfig.create(model=model, **options | {"overlap": False})
    runtime = EngineRuntime.build(config, read_environment())
    outputs = _run(runtime, dict(enumerate(requests)))
    runtime.engine.close()
    return [outputs[number] for number in range(len(requests))]


def run_rank(rank: int, case: RankCase) -> tuple[dict[int, dict[str, Any]], list[tuple[int, int]]]:
    """This rank's outputs by number of the request, and of its balancers how often they have rearranged, and how much
    they have moved.
    """
    runtime, own = _opened(rank, case)
    outputs = _run(runtime, own)
    peers = runtime.worker._runner._peers
    runtime.engine.close()
    return outputs, [(balancer.num_rearranged, balancer.num_moved) for balancer in peers.balancers]


def trace_rank(rank: int, case: RankCase) -> StepTrace:
    """What this rank's engine does meanwhile."""
    runtime, own = _opened(rank, case)
    with traced_steps(runtime) as trace:
        _run(runtime, own)
    runtime.engine.close()
    return trace


def _opened(rank: int, case: RankCase) -> tuple[EngineRuntime, dict[int, Request]]:
    """This rank's engine, and its requests by number."""
    replica, place = divmod(rank, case.sizes.get("context_parallel_size", 1))
    own = {n: case.requests[n] for n, owner in enumerate(case.owners) if owner == replica and place == 0}
    return open_engine(rank, case.model, case.sizes, case.options), own


def open_engine(rank: int, model: str | None, sizes: dict[str, int], options: dict[str, Any]) -> EngineRuntime:
    """This rank's engine."""
    device = device_of(options.get("device", "cpu"), rank)
    groups = groups_of(rank, tuple(sizes.items()), device)
    config = EngineConfig.create(model=model, **options | sizes | {"device": str(device)})
    return EngineRuntime.build(config, read_environment(), groups=groups)


@cache
def groups_of(rank: int, sizes: tuple[tuple[str, int], ...], device: torch.device) -> RankGroups:
    """Joined once for each layout."""
    return RankGroups.join(ParallelConfig(**dict(sizes)), rank, device)


def _run(runtime: EngineRuntime, requests: dict[int, Request]) -> dict[int, dict[str, Any]]:
    for number, (ids, params) in requests.items():
        encoded = runtime.encoder.encode({"prompt_token_ids": ids})
        request = runtime.inputs.generation(str(number), number, encoded, SamplingParams(**params))
        runtime.engine.add_request(request)
    outputs = {}
    while True:
        ready = runtime.engine.step()
        while ready.finished:
            output = ready.finished.popleft()
            outputs[int(output.request_id)] = shown(output)
        if runtime.engine.is_idle:
            return outputs


def shown(output: Any) -> dict[str, Any]:
    """What must not depend on ranks: tokens, and log-probabilities to the last bit."""
    assert output.error is None, output.error
    return {
        "tokens": [choice.token_ids for choice in output.outputs],
        "logprobs": [choice.to_dict()["logprobs"] for choice in output.outputs],
        "prompt": None if output.prompt_logprobs is None else [e and e.to_dict() for e in output.prompt_logprobs],
    }
