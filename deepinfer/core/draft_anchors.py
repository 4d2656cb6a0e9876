"""Where the blocks of a draft pass begin."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class DraftAnchors:
    """R requests, on the model's device.

    Attributes:
        tokens: int64 [R] newest token of each request, not yet run through the target.
        last_positions: int64 [R] position of the last token that has been (P); the newest one stands at P + 1.
        state_slots: int64 [R].
        is_real: bool [R] requests that are no padding, where R is the same on all ranks that share experts; None: all,
            and other ranks may have others.
    """

    tokens: torch.Tensor
    last_positions: torch.Tensor
    state_slots: torch.Tensor
    is_real: torch.Tensor | None = None
