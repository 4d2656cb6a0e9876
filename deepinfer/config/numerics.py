"""The three numerics modes: which values are rounded, and where."""

from __future__ import annotations

from enum import Enum


class Numerics(str, Enum):
    """Rounding mode of a whole engine (decisions: quantization points).

    * ``OFFICIAL``: bf16 at every stored tensor boundary and all four quantization points; the mode users run.
    * ``FP32_QUANT``: fp32 activations with the same four quantization points.
    * ``FP32``: fp32 activations, nothing quantized but the stored weights.
    """

    OFFICIAL = "official"
    FP32_QUANT = "fp32-quant"
    FP32 = "fp32"

    @property
    def quantize(self) -> bool:
        """Whether activations and caches pass the quantizers."""
        return self is not Numerics.FP32

    @property
    def low_precision(self) -> bool:
        """Whether stored activations are bf16 (else fp32)."""
        return self is Numerics.OFFICIAL
