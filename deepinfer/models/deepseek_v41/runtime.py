"""What every component of the model shares: config, ops, numerics."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.config.numerics import Numerics
from deepinfer.distributed.rank_groups import RankGroups
from deepinfer.ops.contract import Ops


@dataclass(frozen=True, slots=True)
class ModelRuntime:
    """Static surroundings of the model, fixed at load.

    Attributes:
        config: the checkpoint's config.
        ops: the backend's ops, chosen once.
        numerics: rounding mode.
        max_positions: positions the rotary tables cover.
        yoco_mode: "off", "mask" or "compact": which rows go through the consumer layers (doc/yoco.md).
        groups: the ranks that share parts of the model; None for a rank by itself.
    """

    config: DeepSeekV41Config
    ops: Ops
    numerics: Numerics
    max_positions: int
    yoco_mode: str = "off"
    groups: RankGroups | None = None

    @property
    def act_dtype(self) -> torch.dtype:
        """dtype of stored activations."""
        return torch.bfloat16 if self.numerics.low_precision else torch.float32

    def initial_streams(self, token_ids: torch.Tensor, table: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(streams [T, S, D], pre [T, S]) of int64 tokens [T] from the embedding table [V, D]."""
        return self.ops.expand_embedding(token_ids, table, self.config.hc_mult, self.act_dtype)

    def stream_mean(self, streams: torch.Tensor) -> torch.Tensor:
        """Mean [T, D] over the streams [T, S, D] in float32, rounded once (spec/decode.md 1.2)."""
        ones = torch.ones(streams.shape[:2], dtype=torch.float32, device=streams.device)
        return (self.ops.hc_read(streams, ones, torch.float32) / streams.shape[1]).to(self.act_dtype)

    @property
    def quantize(self) -> bool:
        """Whether activations pass Q8/32 before quantized matrices, and q and k the FP4 quantizers."""
        return self.numerics.quantize
