"""The one table of tolerances of the op tests, with the reason of each. Everything not in it is compared bit by bit."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Tolerance:
    """|got - want| <= relative * (largest |want| of the row) element by element.

    Attributes:
        relative: bound.
        reason: why this much.
    """

    relative: float
    reason: str


TOLERANCES = {
    "linear": Tolerance(3e-6, "float32 accumulation of up to some hundred products against float64"),
    "rms_norm": Tolerance(1e-6, "float32 sum of squares, one division and square root"),
    "apply_rope": Tolerance(3e-7, "two float32 products and one sum"),
    "hc_mix": Tolerance(3e-5, "40 divisions in a row in float32, after a float32 product"),
    "hc_read": Tolerance(5e-7, "sum of 4 float32 products"),
    "hc_write": Tolerance(5e-7, "sum of 5 float32 products"),
    "route": Tolerance(3e-6, "float32 product, softplus and square root"),
    "moe": Tolerance(2e-5, "three float32 products in a row without rounding in between"),
    "moe_quantized": Tolerance(
        2e-2, "a hidden value on a rounding edge may take the neighbouring code (2^-4 relative)"
    ),
    "pool_pairs": Tolerance(1e-6, "exponential and one division"),
    "index_scores": Tolerance(2e-5, "float32 accumulation over dims and heads, whose terms of both signs may cancel"),
    "attend_vectors": Tolerance(3e-6, "float32 softmax and accumulation"),
    "engram_gate": Tolerance(2e-6, "three float32 sums, square root and sigmoid"),
    "bf16": Tolerance(2.0**-8, "one rounding to bf16 at the end"),
}


def assert_close(got: torch.Tensor, want: torch.Tensor, name: str) -> None:
    """Compare with the tolerance `name`; `want` is float64 and -inf must match exactly."""
    tolerance = TOLERANCES[name]
    got = got.to(torch.float64)
    assert got.shape == want.shape
    finite = torch.isfinite(want)
    assert torch.equal(got[~finite], want[~finite])
    if want.numel() == 0 or not bool(finite.any()):
        return
    scale = torch.where(finite, want, 0.0).abs().reshape(want.shape[0], -1).amax(1).clamp_min(1e-30)
    error = torch.where(finite, got - want, 0.0).abs().reshape(want.shape[0], -1).amax(1) / scale
    assert float(error.max()) <= tolerance.relative, f"{name}: error {float(error.max()):.3g}; {tolerance.reason}"
