"""Rules of rows, as kernels take them."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from deepinfer.sampling.draw_kinds import DrawKinds


@dataclass(frozen=True, slots=True)
class RowWords:
    """How n rows are sampled.

    Attributes:
        words: int64 [n, 7] on the device, contiguous (`row_rules.row_rule`).
        kinds: what any of the rows asks for.
    """

    words: torch.Tensor
    kinds: DrawKinds
