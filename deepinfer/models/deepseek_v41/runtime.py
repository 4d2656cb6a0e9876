"""What every component of the model shares: config, ops, numerics."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.config.numerics import Numerics
from deepinfer.ops.contract import Ops


@dataclass(frozen=True, slots=True)
class ModelRuntime:
    """Static surroundings of the model, fixed at load.

    Attributes:
        config: the checkpoint's config.
        ops: the backend's ops, chosen once.
        numerics: rounding mode.
        max_positions: positions the rotary tables cover.
    """

    config: DeepSeekV41Config
    ops: Ops
    numerics: Numerics
    max_positions: int

    @property
    def act_dtype(self) -> torch.dtype:
        """dtype of stored activations."""
        return torch.bfloat16 if self.numerics.low_precision else torch.float32

    @property
    def quantize(self) -> bool:
        """Whether activations pass Q8/32 before quantized matrices, and q and k the FP4 quantizers."""
        return self.numerics.quantize
