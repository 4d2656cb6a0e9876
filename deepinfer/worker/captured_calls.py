"""Runs static work as CUDA graphs: one launch instead of thousands."""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager

import torch

from deepinfer.logging import get_logger

logger = get_logger(__name__)


class CapturedCalls:
    """See `StaticCalls`. A key's first call runs eagerly, which also compiles and loads what it needs, and is then
    captured; later calls replay the graph.

    All graphs share one memory pool: they run one after the other on one stream, and what they leave lies outside.
    The pool begins as one piece that the largest graph fits into. Else a pool that meets growing steps keeps a piece
    of every size: torch neither joins pieces nor gives them back.
    The matrix library has memory of its own for each stream, taken at its first product there. It meets the capturing
    stream before a capture, or that memory would come from the pool, where it is not free between graphs.
    A graph that does not fit into the memory is done without: its key stays eager.

    Args:
        device: the GPU.
        pool_bytes: of that piece, taken with the first graph.

    Attributes:
        pool: torch's name of the pool.
    """

    def __init__(self, device: torch.device, pool_bytes: int = 0) -> None:
        self.pool = torch.cuda.graph_pool_handle()
        self._device = device
        self._pool_bytes = pool_bytes
        self._stream = torch.cuda.Stream(device)
        self._graphs: dict[Hashable, torch.cuda.CUDAGraph | None] = {}
        self._piece: torch.cuda.CUDAGraph | None = None  # the pool lives as long as a graph of it

    @property
    def graphs(self) -> Mapping[Hashable, torch.cuda.CUDAGraph | None]:
        """By key; None for one that did not fit into the memory."""
        return self._graphs

    @property
    def num_graphs(self) -> int:
        """Graphs captured so far."""
        return sum(graph is not None for graph in self._graphs.values())

    def run(self, key: Hashable, work: Callable[[], None]) -> None:
        """Replay the key's graph, or run `work` and capture it."""
        graph = self._graphs.get(key)
        if graph is not None:
            graph.replay()
            return
        work()
        if key not in self._graphs:
            if not self._graphs and self._pool_bytes:
                self._touch(1)
                self._piece = self._capture("the memory of all", lambda: self._touch(self._pool_bytes))
            self._graphs[key] = self._capture(key, work)

    def _touch(self, num_bytes: int) -> None:
        """Take and give back one piece of memory. In a capture the pool keeps it, free for all graphs."""
        torch.empty(num_bytes, dtype=torch.uint8, device=self._device)[:1].zero_()  # an empty graph is warned about

    def _capture(self, key: Hashable, work: Callable[[], None]) -> torch.cuda.CUDAGraph | None:
        """Record what `work` launches; nothing of it runs."""
        graph = torch.cuda.CUDAGraph()
        self._stream.wait_stream(torch.cuda.current_stream())
        try:
            with _collector_off(), torch.cuda.stream(self._stream):
                _meet_library(self._device)
                graph.capture_begin(pool=self.pool, capture_error_mode="thread_local")
                try:
                    work()
                finally:
                    graph.capture_end()
        except RuntimeError as error:
            if "out of memory" not in str(error):  # in torch's own pool, or the driver's
                raise
            logger.warning("no memory for the CUDA graph of %s, which stays eager: %s", key, error)
            return None
        torch.cuda.current_stream().wait_stream(self._stream)
        return graph


def _meet_library(device: torch.device) -> None:
    """A product, of which nothing is kept."""
    small = torch.zeros((16, 16), dtype=torch.bfloat16, device=device)
    torch.mm(small, small)


@contextmanager
def _collector_off() -> Iterator[None]:
    """The garbage collector may free GPU memory at any time, which a capture does not allow."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
