"""Where a model gets its tensors from, by checkpoint name."""

from __future__ import annotations

from typing import Protocol

import torch


class TensorSource(Protocol):
    """Read access to stored tensors. Implemented by the checkpoint reader; tests may use a dict."""

    def tensor(self, name: str) -> torch.Tensor:
        """A private CPU copy in its stored dtype. I8 (packed FP4) and E8M0 scales come as uint8.

        Raises CheckpointError naming the tensor and file when it is absent or unreadable.
        """
        ...

    def mapped(self, name: str) -> torch.Tensor:
        """A read-only memory-mapped view in its stored dtype (E8M0 as uint8), for tables read row by row."""
        ...
