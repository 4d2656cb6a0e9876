"""A training step, run eagerly or replayed as a CUDA graph: eager steps are bound by the launches of kernels."""

from __future__ import annotations

from collections.abc import Callable

import torch

_EAGER_STEPS = 6  # before a capture: optimizer state and compiled pieces are there
_LARGEST_CHANGE = 0.25  # of the loss between the last eager and the first replayed step

Tensors = tuple[torch.Tensor, ...]


class StepGraph:
    """Calls a step with fixed shapes.

    Args:
        step: takes tensors and returns tensors, the loss first; what it changes, it changes in place.
        captured: whether to replay it, on a GPU.
    """

    def __init__(self, step: Callable[..., Tensors], captured: bool) -> None:
        self._step, self._wants_graph = step, captured
        self._num_calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._inputs: list[torch.Tensor] = []
        self._outputs: Tensors = ()

    def __call__(self, *inputs: torch.Tensor) -> Tensors:
        self._num_calls += 1
        if self._wants_graph and self._num_calls > _EAGER_STEPS and self._graph is None:
            self._capture(inputs)
        if self._graph is None:
            return self._step(*inputs)
        for target, source in zip(self._inputs, inputs, strict=True):
            target.copy_(source)
        self._graph.replay()
        return self._outputs

    def _capture(self, inputs: Tensors) -> None:
        """Two eager steps on a side stream, then the graph; the steps count, on this batch."""
        self._inputs = [item.clone() for item in inputs]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                eager = self._step(*self._inputs)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            self._outputs = self._step(*self._inputs)
        graph.replay()
        torch.cuda.synchronize()
        before, after = float(eager[0]), float(self._outputs[0])
        if abs(after - before) < _LARGEST_CHANGE:
            self._graph = graph
        else:
            self._wants_graph = False
            print(f"the graph is not used: the loss went from {before} to {after}", flush=True)
