"""Elementary functions made of IEEE basic operations only, so that an element's bits never depend on its place.

A library's vectorised exp and the scalar code for the last few elements of an array may differ in the last bit.
Addition, multiplication, division, rounding, clamping and integer operations cannot, and `rsqrt` of torch is a division
and a hardware square root. (`torch.sqrt` is not used: with MKL it is not correctly rounded.) All functions take
and return float32 of any shape; errors are below 3 units in the last place.
"""

from __future__ import annotations

import torch

from deepinfer.ops.reference.constant import constant

_LOG2_E = constant(1.4426950408889634)
# ln 2 in two parts of 16 bits: n * part is exact for |n| < 256, so a fused and an unfused multiply-subtract agree.
_LN2_HIGH = 0.693145751953125
_LN2_LOW = 1.4284159988164902e-06
# 2 * exp(r) on |r| <= ln(2)/2, minimax, highest power first.
_EXP_POLY = tuple(
    constant(coefficient)
    for coefficient in (
        0.0027687211986631155,
        0.016748391091823578,
        0.0833360105752945,
        0.33332860469818115,
        0.9999998807907104,
        2.0,
        2.0,
    )
)
# (atanh(s)/s - 1)/z with z = s*s <= 1/9, minimax, highest power first.
_ATANH_POLY = tuple(
    constant(coefficient)
    for coefficient in (0.14012229442596436, 0.13999570906162262, 0.20010849833488464, 0.3333320617675781)
)
_SQRT_HALF_BITS = 0x3F3504F3
_ONE, _TWO = constant(1.0), constant(2.0)
_TWO_23, _BIAS = constant(8388608.0), constant(126.0)


def exp(x: torch.Tensor) -> torch.Tensor:
    """e^x. Results below 2^-125.5 are zero (exactly zero for -inf), NaN stays NaN."""
    x = x.clamp(-87.2, 89.0)
    n = x.mul(_LOG2_E).round_()
    r = x.sub_(n, alpha=_LN2_HIGH).sub_(n, alpha=_LN2_LOW)
    p = _polynomial(r, _EXP_POLY)
    # 2^(n-1) as float bits: exponent field n + 126, which is zero (0.0) at the lower clamp.
    power = n.add_(_BIAS).mul_(_TWO_23).to(torch.int32).view(torch.float32)
    return p.mul_(power)


def log(x: torch.Tensor) -> torch.Tensor:
    """Natural logarithm; -inf at 0, NaN below, inf at inf."""
    tiny = x < 1.1754943508222875e-38  # subnormal (or not positive): scale up by 2^23
    bits = torch.where(tiny, x * _TWO_23, x).view(torch.int32)
    exponent = (bits - _SQRT_HALF_BITS) >> 23
    f = (bits - (exponent << 23)).view(torch.float32).sub_(1.0)  # mantissa in [sqrt(1/2), sqrt(2)), minus 1
    n = torch.where(tiny, exponent - 23, exponent).to(torch.float32)
    result = _twice_atanh(f.div(f + _TWO)).add_(n, alpha=_LN2_LOW).add_(n, alpha=_LN2_HIGH)
    result = torch.where(x > 0, result, torch.where(x == 0, -torch.inf, torch.nan))
    return torch.where(x == torch.inf, x, result)


def sigmoid(x: torch.Tensor) -> torch.Tensor:
    """1 / (1 + e^-x)."""
    return exp(-x).add_(_ONE).reciprocal_()


def silu(x: torch.Tensor) -> torch.Tensor:
    """x * sigmoid(x)."""
    return x / exp(-x).add_(_ONE)


def softplus(x: torch.Tensor) -> torch.Tensor:
    """log(1 + e^x), as max(x, 0) + log1p(e^-|x|); equals x in float32 above 17."""
    u = exp(x.abs().neg_())
    return _twice_atanh(u.div(u + _TWO)).add_(x.clamp_min(0.0))


def sqrt(x: torch.Tensor) -> torch.Tensor:
    """Square root as 1 / rsqrt(x); 0 at 0."""
    return torch.rsqrt(x).reciprocal_()


def _twice_atanh(s: torch.Tensor) -> torch.Tensor:
    """2 * atanh(s) for |s| <= 1/3; this is log((1 + s) / (1 - s))."""
    z = s * s
    return _polynomial(z, _ATANH_POLY).mul_(z).mul_(s).add_(s).mul_(_TWO)


def _polynomial(x: torch.Tensor, coefficients: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """Horner's rule, highest power first, every product and sum rounded."""
    p = x * coefficients[0]
    for coefficient in coefficients[1:-1]:
        p.add_(coefficient).mul_(x)
    return p.add_(coefficients[-1])
