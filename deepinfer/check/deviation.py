"""How far two results of an op are apart."""

from __future__ import annotations

import torch


def relative_error(found: torch.Tensor, want: torch.Tensor) -> float:
    """Of floats: norms over everything finite; inf where what is finite differs."""
    if not torch.equal(found.isfinite(), want.isfinite()):
        return float("inf")
    found, want = found.double(), want.double()
    finite = want.isfinite()
    found, want = torch.where(finite, found, 0.0), torch.where(finite, want, 0.0)
    return float((found - want).norm() / want.norm().clamp(min=1e-30))


def num_differing(found: torch.Tensor, want: torch.Tensor) -> tuple[int, int]:
    """How many integers differ, and of how many. Rows of int64 [n, k] are choices: in any order, -1 for none."""
    if found.dtype is torch.int64 and found.dim() == 2:
        return max(_absent(found, want), _absent(want, found), key=lambda counts: counts[0])
    return int((found != want).sum()), found.numel()


def _absent(chosen: torch.Tensor, others: torch.Tensor) -> tuple[int, int]:
    """How many of the rows' choices are not among the same row's others, and of how many."""
    is_choice = chosen >= 0
    absent = is_choice & ~(chosen.unsqueeze(2) == others.unsqueeze(1)).any(2)
    return int(absent.sum()), int(is_choice.sum())
