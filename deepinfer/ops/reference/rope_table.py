"""Cosines and sines of the rotary angles of every position."""

from __future__ import annotations

import math

import numpy as np
import torch

from deepinfer.config.rope_scaling import RopeScaling

_POSITIONS_PER_PIECE = 1 << 14  # the float64 angles of a million positions would take more than the table


def rope_table(
    theta: float, dim: int, scaling: RopeScaling | None, num_positions: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Table of cos and sin of f32(p) * f32(omega_j), the product in float32 (spec/model.md 4.2).

    cos and sin are taken of that float32 angle in float64 and rounded once, so every machine makes the same table.

    Args:
        theta: base of the frequencies.
        dim: rotated columns (r).
        scaling: YaRN parameters, or None for plain frequencies.
        num_positions: P.

    Returns:
        cos, sin: float32 [P, dim/2] on the CPU.
    """
    omega = rope_frequencies(theta, dim, scaling)
    cos = np.empty((num_positions, dim // 2), dtype=np.float32)
    sin = np.empty_like(cos)
    for begin in range(0, num_positions, _POSITIONS_PER_PIECE):
        piece = slice(begin, min(begin + _POSITIONS_PER_PIECE, num_positions))
        angle = (np.arange(piece.start, piece.stop, dtype=np.float32)[:, None] * omega).astype(np.float64)
        cos[piece], sin[piece] = np.cos(angle), np.sin(angle)
    return torch.from_numpy(cos), torch.from_numpy(sin)


def rope_frequencies(theta: float, dim: int, scaling: RopeScaling | None) -> np.ndarray:
    """omega_j = 1 / f32(theta^(2j/dim)), float32 [dim/2]; with YaRN, a ramp over j from omega to omega / factor."""
    index = np.arange(dim // 2, dtype=np.float64)
    omega = np.float32(1.0) / (float(theta) ** (2.0 * index / dim)).astype(np.float32)
    if scaling is not None:
        omega = omega.astype(np.float64)
        low = max(math.floor(_ramp_index(theta, dim, scaling, scaling.beta_fast)), 0)
        high = min(math.ceil(_ramp_index(theta, dim, scaling, scaling.beta_slow)), dim - 1)
        ramp = np.clip((index - low) / (high - low if high > low else 0.001), 0.0, 1.0)
        omega = omega * (1.0 - ramp) + omega / scaling.factor * ramp
    return omega.astype(np.float32)


def _ramp_index(theta: float, dim: int, scaling: RopeScaling, rotations: float) -> float:
    """The (fractional) j whose pair turns `rotations` times over the original context."""
    length = scaling.original_max_position_embeddings
    return dim * math.log(length / (rotations * 2.0 * math.pi)) / (2.0 * math.log(theta))
