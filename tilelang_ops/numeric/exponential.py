"""e^x and what is made of it inside kernels: bit for bit the reference's functions of the same names."""

from typing import Any

import tilelang.language as T

from tilelang_ops.numeric.bind import bind

_LOG2_E = 1.4426950408889634
# ln 2 in two parts of 16 bits: n * part is exact for |n| < 256.
_LN2_HIGH = 0.693145751953125
_LN2_LOW = 1.4284159988164902e-06
# 2 * exp(r) on |r| <= ln(2)/2, highest power first.
_EXP_POLY = (
    0.0027687211986631155,
    0.016748391091823578,
    0.0833360105752945,
    0.33332860469818115,
    0.9999998807907104,
    2.0,
    2.0,
)


def exp(x: Any) -> Any:
    """float32 e^x. Results below 2^-125.5 are zero, NaN stays NaN."""

    def scaled(n: Any, r: Any) -> Any:
        power = T.reinterpret(T.Cast("int32", (n + T.float32(126.0)) * T.float32(8388608.0)), "float32")
        return T.ieee_mul(_polynomial(r), power)

    def reduced(x: Any) -> Any:
        clamped = T.min(T.max(x, T.float32(-87.2)), T.float32(89.0))
        n = T.nearbyint(T.ieee_mul(clamped, T.float32(_LOG2_E)))
        return bind(n, lambda n: bind(_remainder(clamped, n), lambda r: scaled(n, r)))

    return bind(x, lambda x: T.if_then_else(T.isnan(x), x, reduced(x)))


def sigmoid(x: Any) -> Any:
    """float32 1 / (1 + e^-x)."""
    return T.ieee_frcp(T.ieee_add(exp(-x), T.float32(1.0)))


def _remainder(x: Any, n: Any) -> Any:
    high = T.ieee_sub(x, T.ieee_mul(n, T.float32(_LN2_HIGH)))
    return T.ieee_sub(high, T.ieee_mul(n, T.float32(_LN2_LOW)))


def _polynomial(r: Any) -> Any:
    p = T.ieee_mul(r, T.float32(_EXP_POLY[0]))
    for coefficient in _EXP_POLY[1:-1]:
        p = T.ieee_mul(T.ieee_add(p, T.float32(coefficient)), r)
    return T.ieee_add(p, T.float32(_EXP_POLY[-1]))
