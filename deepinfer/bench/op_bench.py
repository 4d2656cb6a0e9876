"""Times a model's own op calls on several backends."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from deepinfer._C import cpu
from deepinfer.bench.machine_limits import MachineLimits
from deepinfer.bench.model_ops import ModelOps
from deepinfer.bench.op_call import OpCall
from deepinfer.bench.op_figures import OpFigures
from deepinfer.bench.spread import Spread
from deepinfer.config.numerics import Numerics
from deepinfer.engine.model_path import resolve_model_path
from deepinfer.ops.contract import Ops
from deepinfer.ops.select import select_backend
from deepinfer.worker.pinned_torch import pinned_torch

_SAMPLE_SECONDS: Final = 2e-4  # calls are repeated within a sample until it lasts that long


class OpBench:
    """Backends side by side.

    Attributes:
        limits: of this machine, measured when they are first asked for.

    Args:
        backends: names.
        num_threads: of each.
    """

    def __init__(self, backends: Sequence[str], num_threads: int) -> None:
        selected = {name: select_backend(name, "cpu", num_threads) for name in backends}
        self._backends: dict[str, Ops] = {name: backend.ops for name, backend in selected.items()}
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
        ops = next(iter(self._backends.values()))
        with pinned_torch(self._num_threads):
            recorded = ModelOps(resolve_model_path(model), numerics, ops, max(row_counts), context_len)
            return [
                time_op(call, rows, self._backends, repeats)
                for rows in row_counts
                for call in recorded.decode_step(rows)
            ]


def time_op(call: OpCall, rows: int, backends: Mapping[str, Ops], repeats: int) -> OpFigures:
    """Time one call on each backend, in turns.

    Args:
        call: with its operands.
        rows: of its step.
        backends: by name.
        repeats: samples of each, after one call that warms up.
    """
    runs = {name: _bound(getattr(ops, call.name), call) for name, ops in backends.items()}
    loops = {name: _num_loops(run) for name, run in runs.items()}
    samples: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            samples[name].append(_seconds(run, loops[name]))
    seconds = {name: Spread.of(values) for name, values in samples.items()}
    return OpFigures(rows, call.name, call.shapes, call.count, call.num_bytes, call.multiply_adds, seconds)


def _bound(function: Callable[..., Any], call: OpCall) -> Callable[[], object]:
    return lambda: function(*call.args, **call.kwargs)


def _num_loops(run: Callable[[], object]) -> int:
    run()
    return max(1, round(_SAMPLE_SECONDS / max(_seconds(run, 1), 1e-7)))


def _seconds(run: Callable[[], object], loops: int) -> float:
    began = time.perf_counter()
    for _ in range(loops):
        run()
    return (time.perf_counter() - began) / loops
