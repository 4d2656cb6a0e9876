"""What the device and the host do during decode steps that are replayed from CUDA graphs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
import torch

from deepinfer import LLM
from deepinfer.bench.graph_nodes import count_nodes
from deepinfer.worker.captured_calls import CapturedCalls


@dataclass
class GraphTimes:
    """Filled while `watching`.

    The device counts as busy from the moment that it is told to run a graph, with nothing before it, to the graph's
    end. Whatever lies between two graphs counts as idle, the transfers of a few kilobytes there included.

    Attributes:
        runs: key of each graph that ran, and events before and behind it.
        host: seconds of each call of the engine's `step`, without
        waited: seconds of it in which the host waited for the device.
    """

    runs: list[tuple[Any, torch.cuda.Event, torch.cuda.Event]] = field(default_factory=list)
    host: list[float] = field(default_factory=list)
    waited: float = 0.0

    @contextmanager
    def watching(self, llm: LLM) -> Iterator[None]:
        """Note what happens inside."""
        engine = llm._runtime.engine
        run, wait, step = CapturedCalls.run, torch.cuda.Event.synchronize, type(engine).step

        def timed_run(calls: CapturedCalls, key: Any, work: Callable[[], None]) -> None:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            run(calls, key, work)
            end.record()
            self.runs.append((key, begin, end))

        def timed_wait(event: torch.cuda.Event) -> None:
            began = time.perf_counter()
            wait(event)
            self.waited += time.perf_counter() - began

        def timed_step(engine: Any) -> Any:
            began, self.waited = time.perf_counter(), 0.0
            outputs = step(engine)
            self.host.append(time.perf_counter() - began - self.waited)
            return outputs

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(CapturedCalls, "run", timed_run)
            patch.setattr(torch.cuda.Event, "synchronize", timed_wait)
            patch.setattr(type(engine), "step", timed_step)
            yield
        torch.cuda.synchronize()

    def report(self, calls: CapturedCalls, skipped: int) -> dict[str, float]:
        """Per decode step, medians in ms but for the share, which is of the whole time: without the first and last
        `skipped` steps.
        """
        begins = [number for number, (key, _, _) in enumerate(self.runs) if key[0] == "decode"][skipped:-skipped]
        steps, idle = [], []
        for first, following in pairwise(begins):
            steps.append(self.runs[first][1].elapsed_time(self.runs[following][1]))
            gaps = pairwise(self.runs[first : following + 1])
            idle.append(sum(before[2].elapsed_time(behind[1]) for before, behind in gaps))
        keys = [key for key, _, _ in self.runs[begins[-2] : begins[-1]]]
        graphs = [calls._graphs[key] for key in keys]
        return {
            "step_ms": statistics.median(steps),
            "idle_ms": statistics.median(idle),
            "idle_share": sum(idle) / sum(steps),
            "host_ms": statistics.median(self.host[skipped:-skipped]) * 1e3,
            "num_steps": len(steps),
            "graphs_per_step": len(keys),
            "kernels_in_graphs": sum(count_nodes(graph)["kernel"] for graph in graphs if graph is not None),
        }
