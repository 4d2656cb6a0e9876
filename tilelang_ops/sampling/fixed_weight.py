"""Unnormalised probabilities as integers, and the ranking of logits: bit for bit those of the torch sampler."""

from __future__ import annotations

import triton
import triton.language as tl

# Kernels that use these are launched with enable_fp_fusion = False: every product and sum is rounded.
_LOG2_E = tl.constexpr(1.4426950408889634)
# ln 2 in two parts of 16 bits: n * part is exact.
_LN2_HIGH = tl.constexpr(0.693145751953125)
_LN2_LOW = tl.constexpr(1.4284159988164902e-06)
_TO_NEAREST = tl.constexpr(12582912.0)  # 1.5 * 2^23: adding and subtracting it rounds half to even
_ONE = tl.constexpr(1099511627776.0)  # 2^40


@triton.jit
def fixed_weight(shifted):
    """floor(e^x * 2^40) int64 of float32 x <= 0; -inf gives 0."""
    x = tl.maximum(shifted, -64.0)
    n = (x * _LOG2_E + _TO_NEAREST) - _TO_NEAREST
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    # 2 * exp(r) on |r| <= ln(2)/2, highest power first.
    p = r * 0.0027687211986631155
    p = (p + 0.016748391091823578) * r
    p = (p + 0.0833360105752945) * r
    p = (p + 0.33332860469818115) * r
    p = (p + 0.9999998807907104) * r
    p = (p + 2.0) * r
    p = p + 2.0
    power = ((n + 126.0) * 8388608.0).to(tl.int32).to(tl.float32, bitcast=True)
    return (p * power * _ONE).to(tl.int64)


@triton.jit
def row_weight(logits, best, temperature, min_weight):
    """int64 weights of logits float32 of a row whose maximum is `best`, after temperature and min_p."""
    shifted = tl.div_rn(logits - best, temperature)
    weight = fixed_weight(shifted)
    return tl.where(weight >= min_weight, weight, 0)


@triton.jit
def order_key(logits):
    """int32 that orders float32 logits as their values do; +0 and -0 tie."""
    bits = (logits + 0.0).to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)
