"""Engines on a CPU whose decode steps run from static tensors, as a GPU's do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from deepinfer.core.step_plan import ForwardPlan
from deepinfer.sampling.sampler import Sampler
from deepinfer.worker import decode_setup, executors, step_parts, worker
from deepinfer.worker.decode_step import DecodeStep
from deepinfer.worker.eager_calls import EagerCalls
from deepinfer.worker.kv_cache import allocate_caches
from deepinfer.worker.static_decoder import StaticDecoder
from deepinfer.worker.torch_executor import TorchExecutor
from tests.support.late_stream import LateStream

if TYPE_CHECKING:
    from deepinfer.worker.static_sampler import StaticSampler


@dataclass
class StaticSteps:
    """Steps that ran from static tensors: padded ones, and those that fill their bucket; among them those of linked
    plans, and those that were also sampled there.
    """

    num_padded: int = 0
    num_whole: int = 0
    num_linked: int = 0
    num_chosen: int = 0


def as_on_a_gpu(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for a backend of another name."""
    return lambda config, backend, *rest: function(config, replace(backend, name="cuda"), *rest)


@contextmanager
def static_engine(monkeypatch: pytest.MonkeyPatch, with_kernels: bool = False) -> Iterator[StaticSteps]:
    """Engines made inside decode that way, over the ops of their backend.

    With kernels, which need Triton's interpreter, they also sample and draft that way.
    """
    steps = StaticSteps()
    forward = StaticDecoder.forward

    def counted(decoder: StaticDecoder, plan: ForwardPlan) -> DecodeStep:
        step = forward(decoder, plan)
        steps.num_linked += plan.previous_step_id >= 0
        if len(step.hidden) > len(plan.token_ids):
            steps.num_padded += 1
        else:
            steps.num_whole += 1
        return step

    def sampler_of(backend: Any, sampler: Sampler, device: torch.device, pool: Any) -> Any:
        if not with_kernels:
            return sampler
        from deepinfer.sampling.cuda_sampler import CudaSampler

        return CudaSampler(sampler, device, pool)

    def counted_choice(sampler: StaticSampler, plan: Any) -> Any:
        chosen = choose(sampler, plan)
        steps.num_chosen += chosen is not None
        return chosen

    def build(backend: Any, model: Any, caches: Any, sampler: Any, probe: Any) -> executors.Executors:
        target = TorchExecutor(model, caches, probe, model.embedding.device)
        return executors.Executors(target, executors._drafts(model, caches, sampler))

    with monkeypatch.context() as patch:
        patch.setattr(decode_setup, "_static_calls", lambda config, model: EagerCalls())
        patch.setattr(worker, "allocate_caches", lambda *sizes: allocate_caches(*sizes, has_spare_slot=True))
        patch.setattr(step_parts, "token_sampler", sampler_of)
        if with_kernels:
            from deepinfer.worker.static_sampler import StaticSampler

            choose = StaticSampler.choose
            patch.setattr(StaticSampler, "choose", counted_choice)
            patch.setattr(worker, "_stream", lambda device, has_thread: LateStream())
            for name in ("draft_pool", "draft_memory"):
                patch.setattr(step_parts, name, as_on_a_gpu(getattr(step_parts, name)))
        patch.setattr(executors.Executors, "build", build)
        patch.setattr(StaticDecoder, "forward", counted)
        yield steps
