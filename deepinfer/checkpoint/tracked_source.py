"""Proof that a model took every tensor it should from its source, each exactly once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable

import torch

from deepinfer.core.tensor_source import TensorSource
from deepinfer.errors import CheckpointError


class TrackedSource:
    """A TensorSource that counts the reads of each name."""

    def __init__(self, source: TensorSource) -> None:
        self._source = source
        self._reads: Counter[str] = Counter()
        self._lock = threading.Lock()

    def tensor(self, name: str) -> torch.Tensor:
        """`tensor` of the underlying source."""
        self._count(name)
        return self._source.tensor(name)

    def mapped(self, name: str) -> torch.Tensor:
        """`mapped` of the underlying source."""
        self._count(name)
        return self._source.mapped(name)

    def check(self, expected: Iterable[str]) -> None:
        """Raises CheckpointError naming a tensor of `expected` that was not read, or any that was read twice."""
        unread = [name for name in expected if not self._reads[name]]
        if unread:
            raise CheckpointError(f"{len(unread)} tensors were never read into the model, e.g. {unread[0]!r}")
        twice = [name for name, count in self._reads.items() if count > 1]
        if twice:
            raise CheckpointError(f"{len(twice)} tensors were read more than once, e.g. {twice[0]!r}")

    def _count(self, name: str) -> None:
        with self._lock:
            self._reads[name] += 1
