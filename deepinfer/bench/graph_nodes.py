"""What captured CUDA graphs consist of, as the driver says: a profiler need not see the kernels of a replayed graph."""

from __future__ import annotations

import ctypes
import functools
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from unittest import mock

import torch

_KINDS: Final = {0: "kernel", 1: "copy", 2: "set"}  # CUgraphNodeType


@contextmanager
def kept_graphs() -> Iterator[None]:
    """Graphs captured inside can be asked: torch else forgets what a graph was made of once it can run."""
    kept = functools.partial(torch.cuda.CUDAGraph, keep_graph=True)
    with mock.patch.object(torch.cuda, "CUDAGraph", kept):
        yield


def count_nodes(graph: torch.cuda.CUDAGraph) -> Counter[str]:
    """Number of nodes by kind: "kernel", "copy", "set" or "other". RuntimeError when the driver refuses."""
    driver = ctypes.CDLL("libcuda.so.1")  # its handles are the runtime's, and there is one driver whatever torch links
    driver.cuGraphGetNodes.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t)]
    driver.cuGraphNodeGetType.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
    handle, count, kind = graph.raw_cuda_graph(), ctypes.c_size_t(), ctypes.c_int()
    _require(driver.cuGraphGetNodes(handle, None, ctypes.byref(count)))
    nodes = (ctypes.c_void_p * count.value)()
    _require(driver.cuGraphGetNodes(handle, nodes, ctypes.byref(count)))
    counts: Counter[str] = Counter()
    for node in nodes:
        _require(driver.cuGraphNodeGetType(node, ctypes.byref(kind)))
        counts[_KINDS.get(kind.value, "other")] += 1
    return counts


def _require(status: int) -> None:
    if status:
        raise RuntimeError(f"the CUDA driver answers {status}")
