"""Engines on a CPU whose decode steps run from static tensors, as a GPU's do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from deepinfer.core.step_plan import ForwardPlan
from deepinfer.worker import decode_setup, executors, worker
from deepinfer.worker.decode_step import DecodeStep
from deepinfer.worker.eager_calls import EagerCalls
from deepinfer.worker.kv_cache import allocate_caches
from deepinfer.worker.static_decoder import StaticDecoder
from deepinfer.worker.torch_executor import TorchExecutor


@dataclass
class StaticSteps:
    """Steps that ran from static tensors: padded ones, and those that fill their bucket."""

    num_padded: int = 0
    num_whole: int = 0


@contextmanager
def static_engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[StaticSteps]:
    """Engines made inside decode that way, over the ops of their backend."""
    steps = StaticSteps()
    forward = StaticDecoder.forward

    def counted(decoder: StaticDecoder, plan: ForwardPlan) -> DecodeStep:
        step = forward(decoder, plan)
        if len(step.hidden) > len(plan.token_ids):
            steps.num_padded += 1
        else:
            steps.num_whole += 1
        return step

    def build(backend: Any, model: Any, caches: Any, sampler: Any, probe: Any) -> executors.Executors:
        device = model.embedding.device
        target = TorchExecutor(model, caches, probe, device)
        return executors.Executors(target, sampler, executors._torch_drafts(model, caches, sampler, device))

    with monkeypatch.context() as patch:
        patch.setattr(decode_setup, "_static_calls", lambda config, model: EagerCalls())
        patch.setattr(worker, "allocate_caches", lambda *sizes: allocate_caches(*sizes, has_spare_slot=True))
        patch.setattr(executors.Executors, "build", build)
        patch.setattr(StaticDecoder, "forward", counted)
        yield steps
