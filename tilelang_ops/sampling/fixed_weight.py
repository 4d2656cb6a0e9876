"""Unnormalised probabilities as integers, and the ranking of logits: bit for bit those of the torch sampler."""

from __future__ import annotations

import triton
import triton.language as tl

from tilelang_ops.jit.triton_jit import triton_jit

# Kernels that use these are launched with enable_fp_fusion = False: every product and sum is rounded, but those of
# tl.fma. The interpreter rounds those too, so where that matters it takes another way.
_IS_INTERPRETED = tl.constexpr(bool(triton.knobs.runtime.interpret))
_LOG2_E = tl.constexpr(1.4426950408889634)
# ln 2 in two parts of 16 bits: n * part is exact.
_LN2_HIGH = tl.constexpr(0.693145751953125)
_LN2_LOW = tl.constexpr(1.4284159988164902e-06)
# 1.5 * 2^23, adding and subtracting which rounds half to even, and 40: the lowest bits of the sum are n + 40.
_TO_NEAREST = tl.constexpr(12582952.0)
_NEGLIGIBLE = tl.constexpr(-40.0)  # its exp is below one unit
# Ends of int32: no order key of a number is that low, none and no id is that high.
LOWEST = tl.constexpr(-2147483648)
HIGHEST = tl.constexpr(2147483647)


@triton_jit
def _quotient(numerator, divisor):
    """numerator / divisor float32, rounded to nearest, of a numerator [n] in [-40 * divisor, 0] and a scalar.

    A quotient above -2^-27, on which e^x does not depend, need not be exact. Others are by Markstein's theorem: the
    reciprocal is rounded to nearest, the first quotient is off by less than a unit, and its remainder is exact.
    """
    if _IS_INTERPRETED:
        return tl.div_rn(numerator, divisor)
    else:
        reciprocal = tl.div_rn(1.0, divisor)
        rest = tl.fma(-reciprocal, divisor, 1.0) * reciprocal
        quotient = tl.fma(numerator, reciprocal, numerator * rest)
        return tl.fma(tl.fma(-quotient, divisor, numerator), reciprocal, quotient)


@triton_jit
def row_weight(logits, best, temperature, min_weight):
    """int64 weights floor(e^x * 2^40) of logits float32 of a row whose maximum is `best`, after temperature and min_p.

    -inf gives 0.
    """
    x = _quotient(tl.maximum(logits - best, temperature * _NEGLIGIBLE), temperature)
    shifted_n = x * _LOG2_E + _TO_NEAREST
    n = shifted_n - _TO_NEAREST
    r = tl.fma(-n, _LN2_LOW, tl.fma(-n, _LN2_HIGH, x))
    # exp(r) on |r| <= ln(2)/2, highest power first.
    p = r * 0.0013843605993315578
    p = (p + 0.008374195545911789) * r
    p = (p + 0.04166800528764725) * r
    p = (p + 0.16666430234909058) * r
    p = (p + 0.4999999403953552) * r
    p = (p + 1.0) * r
    p = p + 1.0
    weight = (p.to(tl.int32, bitcast=True) + (shifted_n.to(tl.int32, bitcast=True) << 23)).to(tl.float32, bitcast=True)
    # The least float32 that is not below min_weight: comparing with it is comparing the whole parts.
    least = min_weight.to(tl.float32)
    next_least = (least.to(tl.int32, bitcast=True) + 1).to(tl.float32, bitcast=True)
    least = tl.where(least.to(tl.int64) < min_weight, next_least, least)
    return tl.where(weight >= least, weight, 0.0).to(tl.int64)


@triton_jit
def order_key(logits):
    """int32 that orders float32 logits as their values do; +0 and -0 tie."""
    bits = (logits + 0.0).to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton_jit
def logit_of(key):
    """float32 of an order key."""
    return (key ^ ((key >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)
