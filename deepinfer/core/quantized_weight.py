"""A weight matrix as the checkpoint stores it: codes and block scales, never densified."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import torch


class WeightFormat(str, Enum):
    """Storage formats of quantized matrices (spec/model.md 2.1)."""

    FP8_BLOCK32 = "fp8_block32"  # e4m3 codes, one E8M0 scale per 32x32 tile
    FP4_ROW32 = "fp4_row32"  # two e2m1 codes a byte (even column low), one E8M0 scale per 32 columns of a row


@dataclass(frozen=True, slots=True)
class QuantizedWeight:
    """Filled by the weight loader, read by the linear ops.

    Attributes:
        codes: FP8: float8_e4m3fn [..., out, in]; FP4: uint8 [..., out, in/2]. A leading expert dimension is allowed.
        scales: uint8 E8M0 bytes (value 2^(byte-127)); FP8: [..., ceil(out/32), ceil(in/32)];
            FP4: [..., out, ceil(in/32)].
        format: which of the two.
    """

    codes: torch.Tensor
    scales: torch.Tensor
    format: WeightFormat

    @property
    def out_features(self) -> int:
        return self.codes.shape[-2]

    @property
    def in_features(self) -> int:
        return self.codes.shape[-1] * (2 if self.format is WeightFormat.FP4_ROW32 else 1)
