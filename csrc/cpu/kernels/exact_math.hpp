// Elementary functions of IEEE basic operations, bit-equal to deepinfer/ops/reference/exact_math.py.
#pragma once

#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

inline constexpr float kInfinity = __builtin_inff();
inline constexpr float kLog2E = 1.4426950408889634f;
// ln 2 in two parts of 16 bits: n * part is exact for |n| < 256, so that fused and unfused agree.
inline constexpr float kLn2High = 0.693145751953125f;
inline constexpr float kLn2Low = 1.4284159988164902e-06f;
// 2 * exp(r) on |r| <= ln(2)/2, and (atanh(s)/s - 1)/z with z = s*s <= 1/9: minimax, highest power first.
inline constexpr float kExpPoly[7] = {0.0027687211986631155f,
                                      0.016748391091823578f,
                                      0.0833360105752945f,
                                      0.33332860469818115f,
                                      0.9999998807907104f,
                                      2.0f,
                                      2.0f};
inline constexpr float kAtanhPoly[4] = {0.14012229442596436f, 0.13999570906162262f, 0.20010849833488464f,
                                        0.3333320617675781f};

// Horner's rule, every product and sum rounded.
template <int N>
F32x16 polynomial(F32x16 x, const float (&coefficients)[N]) {
    F32x16 p = x * F32x16::set(coefficients[0]);
    for (int i = 1; i < N - 1; ++i) p = (p + F32x16::set(coefficients[i])) * x;
    return p + F32x16::set(coefficients[N - 1]);
}

// e^x. Results below 2^-125.5 are zero, NaN stays NaN.
inline F32x16 exp(F32x16 x) {
    x = F32x16::min(F32x16::set(89.0f), F32x16::max(F32x16::set(-87.2f), x));
    const F32x16 n = (x * F32x16::set(kLog2E)).round();
    F32x16 r = F32x16::fma(n, F32x16::set(-kLn2High), x);
    r = F32x16::fma(n, F32x16::set(-kLn2Low), r);
    // 2^(n-1) as float bits: exponent field n + 126, which is zero (0.0) at the lower clamp.
    const I32x16 power = ((n + F32x16::set(126.0f)) * F32x16::set(0x1p23f)).to_int();
    return polynomial(r, kExpPoly) * F32x16::from_bits(power);
}

// 2 * atanh(s) for |s| <= 1/3; this is log((1 + s) / (1 - s)).
inline F32x16 twice_atanh(F32x16 s) {
    const F32x16 z = s * s;
    return (polynomial(z, kAtanhPoly) * z * s + s) * F32x16::set(2.0f);
}

// Natural logarithm; -inf at 0, NaN below, inf at inf.
inline F32x16 log(F32x16 x) {
    const Mask16 tiny = x < F32x16::set(1.1754943508222875e-38f);  // subnormal (or not positive): scale up by 2^23
    const I32x16 bits = F32x16::select(tiny, x * F32x16::set(0x1p23f), x).bits();
    const I32x16 exponent = (bits - I32x16::set(0x3F3504F3)).shift_right<23>();  // mantissa in [sqrt(1/2), sqrt(2))
    const F32x16 f = F32x16::from_bits(bits - exponent.shift_left<23>()) - F32x16::set(1.0f);
    F32x16 n = F32x16::from_int(exponent);
    n = F32x16::select(tiny, n - F32x16::set(23.0f), n);
    F32x16 result = twice_atanh(f / (f + F32x16::set(2.0f)));
    result = F32x16::fma(n, F32x16::set(kLn2Low), result);
    result = F32x16::fma(n, F32x16::set(kLn2High), result);
    const F32x16 zero = F32x16::zero();
    const F32x16 other = F32x16::select(x == zero, F32x16::set(-kInfinity), F32x16::set(__builtin_nanf("")));
    result = F32x16::select(zero < x, result, other);
    return F32x16::select(x == F32x16::set(kInfinity), x, result);
}

inline F32x16 sigmoid(F32x16 x) {
    const F32x16 one = F32x16::set(1.0f);
    return one / (exp(F32x16::zero() - x) + one);
}

inline F32x16 silu(F32x16 x) {
    return x / (exp(F32x16::zero() - x) + F32x16::set(1.0f));
}

// log(1 + e^x) as max(x, 0) + log1p(e^-|x|).
inline F32x16 softplus(F32x16 x) {
    const F32x16 u = exp(F32x16::zero() - x.abs());
    return twice_atanh(u / (u + F32x16::set(2.0f))) + F32x16::max(F32x16::zero(), x);
}

// Square root as 1 / (1 / sqrt(x)), like the reference.
inline F32x16 exact_sqrt(F32x16 x) {
    const F32x16 one = F32x16::set(1.0f);
    return one / (one / x.sqrt());
}

inline float exp(float x) {
    return exp(F32x16::set(x)).max_lane();
}

inline float log(float x) {
    return log(F32x16::set(x)).max_lane();
}

// 1 / sqrt(x)
inline float reciprocal_sqrt(float x) {
    return (F32x16::set(1.0f) / F32x16::set(x).sqrt()).max_lane();
}

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
