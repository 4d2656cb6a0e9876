"""How a layer gets at the sliding windows of a step's rows."""

from __future__ import annotations

from typing import Protocol

import torch

from deepinfer.core.cache_tensors import VectorCache


class Windows(Protocol):
    """Made once per step: a `WindowMap` over a workspace, or a `RingWindow`.

    A layer opens its ring, stores its rows at `where`, attends to `window_index`, which numbers the opened cache's
    entries through all its units, and closes it.
    """

    @property
    def where(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Units and places of the step's rows in the opened cache, int64 [T] each; units below 0 are not stored."""
        ...

    @property
    def window_index(self) -> torch.Tensor:
        """int64 [T, W], -1 for absent."""
        ...

    def narrowed(self, window_index: torch.Tensor) -> Windows:
        """The same places, for rows that see `window_index`."""
        ...

    def open(self, ring: VectorCache) -> VectorCache:
        """The cache that the windows lie in."""
        ...

    def close(self, ring: VectorCache, opened: VectorCache) -> None:
        """Leave in the ring what later steps need."""
        ...
