"""Times work on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import torch

from deepinfer.bench.spread import Spread

Run = Callable[[], object]

_FEW_CALLS: Final = 20  # of one sample, at least, unless they take long
_LONG_SECONDS: Final = 4e-3  # a sample need not be longer
_HEAD_START_CYCLES: Final = 4_000_000  # the GPU waits so long before a sample, while the host hands it the work


@dataclass(frozen=True, slots=True)
class GpuTime:
    """Attributes:
    seconds: of one call.
    is_graph: whether the calls were replayed from a CUDA graph. If not, the host started each; where it is slower
        than the GPU, its time counts.
    """

    seconds: Spread
    is_graph: bool


class CudaTimer:
    """Median and spread of calls on the current GPU, by CUDA events.

    Args:
        repeats: samples; each has all calls given, so that operands of one have left the processor's cache when they
            come again.
    """

    def __init__(self, repeats: int) -> None:
        self._repeats = repeats

    def time(self, runs: Sequence[Run]) -> GpuTime:
        """Of calls that do the same with different operands, in turns, replayed from a graph where they can be."""
        _all(runs)
        rounds = self._num_rounds(runs)
        graph = _captured(runs, rounds)
        replay = graph.replay if graph is not None else lambda: _all(runs)
        count = len(runs) * (rounds if graph is not None else 1)
        replay()
        samples = [_seconds(replay) / count for _ in range(self._repeats)]
        return GpuTime(Spread.of(samples), graph is not None)

    def _num_rounds(self, runs: Sequence[Run]) -> int:
        each = _seconds(lambda: _all(runs)) / len(runs)
        wanted = min(_FEW_CALLS, max(1.0, _LONG_SECONDS / each))
        return max(1, round(wanted / len(runs)))


def _all(runs: Sequence[Run]) -> None:
    for run in runs:
        run()


def _seconds(run: Run) -> float:
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    torch.cuda._sleep(_HEAD_START_CYCLES)  # else the sample would begin before the host has submitted it
    begin.record()
    run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e-3


def _captured(runs: Sequence[Run], rounds: int) -> torch.cuda.CUDAGraph | None:
    """A graph of the calls, `rounds` times; None if one of them cannot be captured, as it waits for the GPU."""
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            for _ in range(rounds):
                _all(runs)
    except RuntimeError:
        torch.cuda.synchronize()
        return None
    return graph
