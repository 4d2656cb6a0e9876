"""Times a model's own op calls on several backends."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import torch

from deepinfer._C import cpu
from deepinfer.bench.machine_limits import MachineLimits
from deepinfer.bench.model_ops import ModelOps
from deepinfer.bench.op_call import OpCall
from deepinfer.bench.op_figures import OpFigures
from deepinfer.bench.spread import Spread
from deepinfer.config.numerics import Numerics
from deepinfer.engine.model_path import resolve_model_path
from deepinfer.ops.select import SelectedBackend, select_backend
from deepinfer.worker.pinned_torch import pinned_torch

_SAMPLE_SECONDS: Final = 2e-4  # calls are repeated within a sample until it lasts that long
_SPANS_PER_CALL: Final = 1000  # native ops in a call of the contract, at most: compound ones are made of some


class OpBench:
    """Backends side by side.

    Attributes:
        limits: of this machine, measured when they are first asked for.

    Args:
        backends: names.
        num_threads: of each.
    """

    def __init__(self, backends: Sequence[str], num_threads: int) -> None:
        self._backends = {name: select_backend(name, "cpu", num_threads) for name in backends}
        self._num_threads = num_threads
        self._limits: MachineLimits | None = None

    @property
    def limits(self) -> MachineLimits:
        if self._limits is None:
            self._limits = MachineLimits(*cpu.Context(self._num_threads).measure_limits())
        return self._limits

    def run(
        self, model: str | None, numerics: Numerics, row_counts: Sequence[int], context_len: int, repeats: int
    ) -> list[OpFigures]:
        """Every op call of a decode step of each number of rows.

        Args:
            model: checkpoint directory or hub id; None: the bundled one.
            numerics: rounding mode.
            row_counts: sequences of a step, one row each.
            context_len: tokens before each row.
            repeats: samples of each call and backend.
        """
        ops = next(iter(self._backends.values())).ops
        with pinned_torch(self._num_threads), torch.inference_mode():  # some ops write into caches of a forward pass
            recorded = ModelOps(resolve_model_path(model), numerics, ops, max(row_counts), context_len)
            return [
                time_op(call, rows, self._backends, repeats)
                for rows in row_counts
                for call in recorded.decode_step(rows)
            ]


def time_op(call: OpCall, rows: int, backends: Mapping[str, SelectedBackend], repeats: int) -> OpFigures:
    """Time one call on each backend, in turns.

    Args:
        call: with its operands.
        rows: of its step.
        backends: by name. For one with native code "<name> native" stands beside it: the same without
            Python, unless nothing native was to be done.
        repeats: samples of each, after one call that warms up.
    """
    samples: dict[str, list[float]] = {}
    loops = {name: _num_loops(_bound(backend, call)) for name, backend in backends.items()}
    for _ in range(repeats):
        for name, backend in backends.items():
            run = _bound(backend, call)
            samples.setdefault(name, []).append(_seconds(run, loops[name]))
            if backend.context is not None:
                samples.setdefault(f"{name} native", []).append(_native_seconds(run, loops[name], backend.context))
    seconds = {name: Spread.of(values) for name, values in samples.items() if min(values) > 0}
    return OpFigures(rows, call.name, call.shapes, call.count, call.num_bytes, call.multiply_adds, seconds)


def _bound(backend: SelectedBackend, call: OpCall) -> Callable[[], object]:
    return partial(getattr(backend.ops, call.name), *call.args, **call.kwargs)


def _num_loops(run: Callable[[], object]) -> int:
    run()
    return max(1, round(_SAMPLE_SECONDS / max(_seconds(run, 1), 1e-7)))


def _seconds(run: Callable[[], object], loops: int) -> float:
    began = time.perf_counter()
    for _ in range(loops):
        run()
    return (time.perf_counter() - began) / loops


def _native_seconds(run: Callable[[], object], loops: int, context: cpu.Context) -> float:
    """Time inside native ops."""
    context.start_trace(_SPANS_PER_CALL * loops)
    for _ in range(loops):
        run()
    return sum(end - begin for _, _, begin, end in context.stop_trace()) * 1e-9 / loops
