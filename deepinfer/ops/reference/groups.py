"""Cut vectors into groups of consecutive columns, and put them together again."""

from __future__ import annotations

import torch
import torch.nn.functional as F


def split_groups(x: torch.Tensor, size: int) -> torch.Tensor:
    """float32 [..., d] as [..., ceil(d/size), size]; a partial last group is filled with zeros."""
    d = x.shape[-1]
    x = x.to(torch.float32)
    if d % size:
        x = F.pad(x, (0, -d % size))
    return x.reshape(*x.shape[:-1], x.shape[-1] // size, size)


def join_groups(groups: torch.Tensor, d: int) -> torch.Tensor:
    """[..., G, size] as [..., d]: the inverse of `split_groups`."""
    joined = groups.flatten(-2)
    return joined if joined.shape[-1] == d else joined[..., :d].contiguous()
