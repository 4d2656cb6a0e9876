"""Rounding to the formats of weights and caches, with gradients that pass straight through."""

from __future__ import annotations

import torch

BF16 = torch.bfloat16


def round_fp8(x: torch.Tensor) -> torch.Tensor:
    """e4m3, a power-of-two scale per 32 columns -> bf16."""
    x = x.float()
    groups = x.detach().unflatten(-1, (-1, 32))
    scale = _power_of_two_from(groups.abs().amax(-1, keepdim=True).clamp_min(1e-4) * (1 / 448))
    return _straight_through(x, (_e4m3(groups / scale) * scale).flatten(-2)).to(BF16)


def round_fp4(x: torch.Tensor) -> torch.Tensor:
    """e2m1, a power-of-two scale per 32 columns (experts, index vectors) -> bf16."""
    x = x.float()
    groups = x.detach().unflatten(-1, (-1, 32))
    scale = _power_of_two_from(groups.abs().amax(-1, keepdim=True).clamp_min(1e-30) * (1 / 6))
    return _straight_through(x, (_e2m1(groups / scale) * scale).flatten(-2)).to(BF16)


def round_entries(x: torch.Tensor) -> torch.Tensor:
    """e2m1, an e4m3 scale per 16 columns (compressed KV) -> bf16."""
    x = x.float()
    groups = x.detach().unflatten(-1, (-1, 16))
    scale = _e4m3((groups.abs().amax(-1, keepdim=True) * (1 / 6)).clamp(2.0**-9, 448))
    return _straight_through(x, (_e2m1(groups / scale) * scale).flatten(-2)).to(BF16)


def round_weight(w: torch.Tensor) -> torch.Tensor:
    """An FP8 matrix [multiple of 32, multiple of 32], a power-of-two scale per 32x32 tile -> bf16."""
    rows, columns = w.shape
    tiles = w.detach().reshape(rows // 32, 32, columns // 32, 32)
    scale = _power_of_two_from(tiles.abs().amax((1, 3), keepdim=True).clamp_min(1e-4) * (1 / 448))
    return _straight_through(w, (_e4m3(tiles / scale) * scale).reshape(rows, columns)).to(BF16)


def _straight_through(x: torch.Tensor, rounded: torch.Tensor) -> torch.Tensor:
    return x + (rounded - x).detach()


def _power_of_two_from(values: torch.Tensor) -> torch.Tensor:
    """Smallest power of two >= a normal positive float32."""
    bits = values.view(torch.int32)
    return ((bits + 0x7FFFFF) & 0x7F800000).view(torch.float32)


def _e4m3(x: torch.Tensor) -> torch.Tensor:
    return x.clamp(-448, 448).to(torch.float8_e4m3fn).to(torch.float32)


def _e2m1(x: torch.Tensor) -> torch.Tensor:
    size = x.abs().clamp(max=6.0)
    step = torch.where(size < 2, 0.5, torch.where(size < 4, 1.0, 2.0))
    return torch.copysign(torch.round(size / step) * step, x)
