"""Rotary position tables of the model: one kind per layer class."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from deepinfer.models.deepseek_v41.runtime import ModelRuntime

Rope = tuple[torch.Tensor, torch.Tensor]  # cos and sin of some rows, float32 [T, qk_rope_head_dim / 2]


@dataclass(frozen=True, slots=True)
class RopeTable:
    """cos and sin, float32 [max_positions, qk_rope_head_dim / 2]."""

    cos: torch.Tensor
    sin: torch.Tensor

    def at(self, positions: torch.Tensor) -> Rope:
        """Rows for int64 positions [T]."""
        return self.cos[positions], self.sin[positions]


@dataclass(frozen=True, slots=True)
class RopeTables:
    """Window-only: `rope_theta`, plain; compressed: `compress_rope_theta` with YaRN (spec/model.md 4.2)."""

    window: RopeTable
    compressed: RopeTable

    @classmethod
    def build(cls, runtime: ModelRuntime, device: torch.device) -> RopeTables:
        config, rows = runtime.config, runtime.max_positions
        table = runtime.ops.rope_table
        plain = table(config.rope_theta, config.qk_rope_head_dim, None, rows)
        scaled = table(config.compress_rope_theta, config.qk_rope_head_dim, config.rope_scaling, rows)
        return cls(
            RopeTable(*(part.to(device) for part in plain)),
            RopeTable(*(part.to(device) for part in scaled)),
        )

    def of(self, ratio: int) -> RopeTable:
        """The table of a layer with this compression ratio."""
        return self.compressed if ratio else self.window
