"""A TensorSource whose row tables are in pinned host memory, so that a GPU reads the rows it needs by itself."""

from __future__ import annotations

import torch

from deepinfer.core.tensor_source import TensorSource


class PinnedSource:
    """Copies every table (Engram) into page-locked memory when it is asked for; all else is the source's.

    Args:
        source: gives the tensors.
    """

    def __init__(self, source: TensorSource) -> None:
        self._source = source

    def tensor(self, name: str) -> torch.Tensor:
        """`tensor` of the source."""
        return self._source.tensor(name)

    def mapped(self, name: str) -> torch.Tensor:
        """`mapped` of the source, copied once into pinned memory."""
        table = self._source.mapped(name)
        pinned = torch.empty(table.shape, dtype=table.dtype, pin_memory=True)
        return pinned.copy_(table)
