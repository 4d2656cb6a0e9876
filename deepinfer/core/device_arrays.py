"""Moves small arrays to the device together."""

from __future__ import annotations

import numpy as np
import torch


def device_arrays(device: torch.device, *arrays: np.ndarray) -> list[torch.Tensor]:
    """Int64 tensors on `device` with shapes and values of integer `arrays`: one transfer, whatever their number.

    A GPU's transfer is behind what was launched before, and nobody waits for it: it is from pinned memory.
    """
    joined = np.concatenate([array.reshape(-1) for array in arrays], dtype=np.int64, casting="same_kind")
    host = torch.from_numpy(joined)
    if device.type == "cuda":
        host = host.pin_memory()
    moved = host.to(device, non_blocking=True).split([array.size for array in arrays])
    return [part.view(array.shape) for part, array in zip(moved, arrays, strict=True)]
