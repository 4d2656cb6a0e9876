"""Ops that run twice: as kernels and as the reference on the same inputs, keeping how far apart the results are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import deepinfer.engine.runtime as engine_runtime
from deepinfer import LLM, SamplingParams
from deepinfer.core.cache_tensors import VectorCache
from deepinfer.core.route_result import RouteResult
from deepinfer.core.selection import Selection
from deepinfer.core.sync_guard import allow_device_sync
from deepinfer.ops import reference
from deepinfer.ops.selected_backend import SelectedBackend

RELATIVE_LIMIT = 3e-3  # of float results
SHARE_LIMIT = 1e-3  # of codes and choices that may differ


class CheckedOps:
    """Wraps a backend's ops. `worst` holds, by op, the largest relative error of float results seen, `differing` how
    many integers (choices, cache bytes) of all calls differ, and of how many.
    """

    def __init__(self, ops: Any) -> None:
        self.worst: dict[str, float] = defaultdict(float)
        self.differing: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
        names = [name for name in vars(reference) if callable(getattr(ops, name, None)) and not name.startswith("_")]
        self.ops = SimpleNamespace(**{name: self._checked(name, getattr(ops, name)) for name in names})

    def _checked(self, name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
        judge = getattr(reference, name)
        if name == "rope_table":
            return kernel

        @allow_device_sync()  # decode steps are launched where nothing else may wait
        def call(*args: Any, **options: Any) -> Any:
            copies, before = [_copied(arg) for arg in args], [_copied(arg) for arg in args]
            expected = judge(*copies, **options)
            got = kernel(*args, **options)
            torch.cuda.synchronize()
            pairs = list(zip(_tensors(got), _tensors(expected), strict=True))
            if name == "select_entries":  # blocks of rows that take everything are free
                pairs = pairs[:1] + [_rows(pair, args[3] > options["topk"]) for pair in pairs[1:]]
            for arg, copy, old in zip(args, copies, before, strict=True):
                if isinstance(arg, VectorCache):  # the vectors that either side has written
                    written = (arg.data != old.data).any(-1) | (copy.data != old.data).any(-1)
                    pairs.append((arg.data[written], copy.data[written]))
            if name == "route":  # a near tie falls either way, and the weights of that row with it
                agreed = (pairs[0][0] == pairs[0][1]).all(1)
                pairs = [pairs[0], _rows(pairs[1], agreed)]
            for found, want in pairs:
                assert found.shape == want.shape and found.dtype == want.dtype, (name, found.dtype, want.dtype)
                if found.is_floating_point():
                    self.worst[name] = max(self.worst[name], relative_error(found, want))
                else:
                    (differ, count), (before_differ, before_count) = num_differing(found, want), self.differing[name]
                    self.differing[name] = (before_differ + differ, before_count + count)
            return got

        return call

    def shares(self) -> dict[str, float]:
        """Of an op's integers, the share that differs."""
        return {name: differ / max(count, 1) for name, (differ, count) in self.differing.items()}

    def faults(self) -> list[str]:
        """Ops that are further from the reference than the limits."""
        judged = ((self.worst, RELATIVE_LIMIT), (self.shares(), SHARE_LIMIT))
        return [
            f"{name}: {value:.2e} > {limit}"
            for found, limit in judged
            for name, value in sorted(found.items())
            if not value <= limit
        ]


@contextmanager
def checked_engine(*args: Any, **options: Any) -> Iterator[tuple[LLM, CheckedOps]]:
    """An engine on the cuda backend whose ops compare themselves with the reference."""
    kept: list[CheckedOps] = []
    select = engine_runtime.select_backend

    def select_checked(*selection: Any) -> SelectedBackend:
        chosen = select(*selection)
        assert chosen.name == "cuda"
        kept.append(CheckedOps(chosen.ops))
        return SelectedBackend(chosen.name, kept[0].ops, chosen.reason, chosen.rejected)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_runtime, "select_backend", select_checked)
        # Comparing waits for the device, which nothing may in a graph.
        llm = LLM(*args, device="cuda", backend="cuda", enforce_eager=True, **options)
    with llm:
        yield llm, kept[0]


def assert_no_faults(llm: LLM, ops: CheckedOps, prompts: list[Any], params: SamplingParams) -> None:
    """Generates, prints the worst deviations and fails where one is beyond its limit."""
    ops.worst.clear()
    ops.differing.clear()
    outputs = llm.generate(prompts, params, use_tqdm=False)
    assert all(output.error is None for output in outputs), [output.error for output in outputs if output.error]
    for found in (ops.worst, ops.shares()):
        print(f"\n{len(prompts)} prompts:", {name: f"{value:.1e}" for name, value in sorted(found.items())})
    assert ops.worst and ops.faults() == []


def relative_error(found: torch.Tensor, want: torch.Tensor) -> float:
    """Of floats: norms over everything finite."""
    if not torch.equal(found.isfinite(), want.isfinite()):
        return float("inf")
    found, want = found.double(), want.double()
    finite = want.isfinite()
    found, want = torch.where(finite, found, 0.0), torch.where(finite, want, 0.0)
    return float((found - want).norm() / want.norm().clamp(min=1e-30))


def num_differing(found: torch.Tensor, want: torch.Tensor) -> tuple[int, int]:
    """How many integers differ, and of how many."""
    if found.dtype is torch.int64 and found.dim() == 2:  # choices: in any order, -1 for none
        return max(_absent(found, want), _absent(want, found), key=lambda counts: counts[0])
    return int((found != want).sum()), found.numel()


def _absent(chosen: torch.Tensor, others: torch.Tensor) -> tuple[int, int]:
    """How many of the rows' choices are not among the same row's others, and of how many."""
    is_choice = chosen >= 0
    absent = is_choice & ~(chosen.unsqueeze(2) == others.unsqueeze(1)).any(2)
    return int(absent.sum()), int(is_choice.sum())


def _rows(pair: tuple[torch.Tensor, torch.Tensor], rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return pair[0][rows], pair[1][rows]


def _copied(arg: Any) -> Any:
    """Caches are written in place, so each side gets its own."""
    return VectorCache(arg.data.clone(), arg.format) if isinstance(arg, VectorCache) else arg


def _tensors(result: Any) -> list[torch.Tensor]:
    """All tensors of a result but margins: small differences of numbers that are judged themselves."""
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, RouteResult):
        return [result.ids, result.weights]
    if isinstance(result, Selection):
        return _tensors((result.picks, result.blocks))
    if isinstance(result, (tuple, list)):
        return [tensor for part in result for tensor in _tensors(part)]
    return []
