// The number formats e4m3 and e2m1 and the scales of groups (spec/model.md 2.3), on lanes.
#pragma once

#include "cpu/kernels/round.hpp"
#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

inline constexpr float kE4m3Max = 448.0f;
inline constexpr float kE2m1Max = 6.0f;
inline constexpr float kFp8Floor = 1e-4f;             // least amax of Q8/32
inline constexpr float kFp4Floor = 6.0f * 0x1p-126f;  // of Q4/32
inline constexpr float kFp4Group16Floor = 6.0f * 0x1p-9f;

inline uint32_t float_bits(float x) {
    return __builtin_bit_cast(uint32_t, x);
}
inline float float_from_bits(uint32_t bits) {
    return __builtin_bit_cast(float, bits);
}

// x with the sign of `sign`; x is not negative.
inline F32x16 with_sign(F32x16 x, F32x16 sign) {
    const I32x16 bit = sign.bits() & I32x16::set(INT32_MIN);
    return F32x16::from_bits((x.abs().bits()) | bit);
}

inline F32x16 exponent_only(F32x16 x) {
    return F32x16::from_bits(x.bits() & I32x16::set(0x7F800000));
}

// Nearest e4m3 value, ties to even, for |x| < 464. Adding and subtracting 1.5 * 2^23 * step rounds to a multiple of
// step, the distance of neighbours at |x|: 2^(e-3), at least 2^-9.
inline F32x16 round_e4m3(F32x16 x) {
    const F32x16 shift = F32x16::max(F32x16::set(0x1p-6f), exponent_only(x)) * F32x16::set(1.5f * 0x1p20f);
    return with_sign((x + shift) - shift, x);
}

// Nearest e2m1 value, ties to the even code, saturating at 6; the step is 2^(e-1), at least 1/2. NaN stays NaN.
inline F32x16 round_e2m1(F32x16 x) {
    const F32x16 binade = F32x16::min(F32x16::set(4.0f), F32x16::max(F32x16::set(1.0f), exponent_only(x)));
    const F32x16 shift = binade * F32x16::set(1.5f * 0x1p22f);
    const F32x16 rounded = (x + shift) - shift;
    return with_sign(F32x16::max(F32x16::set(-6.0f), F32x16::min(F32x16::set(6.0f), rounded)), x);
}

// Codes of e4m3 values, one a lane; NaN is 0x7f with its sign. Times 2^-120 a value has its code in the top bits, also
// where both are subnormal.
inline I32x16 encode_e4m3(F32x16 value) {
    const I32x16 code = (value * F32x16::set(0x1p-120f)).bits();
    const I32x16 nan = F32x16::select(value == value, F32x16::zero(), F32x16::from_bits(I32x16::set(0x7F))).bits();
    const I32x16 sign = code.shift_right<24>() & I32x16::set(0x80);
    return (code.shift_right<20>() & I32x16::set(0x7F)) | nan | sign;
}

// Codes of e2m1 values, one a lane; NaN is 7 with its sign.
inline I32x16 encode_e2m1(F32x16 value) {
    const I32x16 code = (value * F32x16::set(0x1p-126f)).bits();
    return (code.shift_right<22>() & I32x16::set(7)) | (code.shift_right<28>() & I32x16::set(8));
}

// Largest magnitude of 32 lanes; Inf when one of them is Inf or NaN.
inline float largest_magnitude(F32x16 a, F32x16 b) {
    const F32x16 infinity = F32x16::set(__builtin_inff());
    const F32x16 x = a.abs(), y = b.abs();
    if (((x < infinity) & (y < infinity)).bits() != 0xFFFFu) return __builtin_inff();
    return F32x16::max(x, y).max_lane();
}

// Smallest power of two that is >= max(amax, floor) * f32(1/largest); Inf for an infinite amax. Adding 0x7fffff carries
// into the exponent unless the mantissa is zero.
inline float power_of_two_scale(float amax, float floor, float largest) {
    const float quotient = (amax > floor ? amax : floor) * (1.0f / largest);
    return float_from_bits((float_bits(quotient) + 0x7FFFFFu) & 0x7F800000u);
}

// Scale of Q4/16e, an e4m3 value: e4m3(min(max(amax, 6 * 2^-9) / 6, 448)); NaN for an infinite amax.
inline float e4m3_scale(float amax) {
    if (amax == __builtin_inff()) return __builtin_nanf("");
    const float quotient = (amax > kFp4Group16Floor ? amax : kFp4Group16Floor) / 6.0f;
    const float bounded = quotient < kE4m3Max ? quotient : kE4m3Max;
    const float binade = float_from_bits(float_bits(bounded) & 0x7F800000u);
    const float shift = (binade > 0x1p-6f ? binade : 0x1p-6f) * (1.5f * 0x1p20f);
    volatile float sum = bounded + shift;  // as in round_e4m3; not to be simplified
    return sum - shift;
}

// Q8/32 and back of a group of 32, in place.
inline void round_fp8_group32(F32x16& a, F32x16& b) {
    const float scale = power_of_two_scale(largest_magnitude(a, b), kFp8Floor, kE4m3Max);
    const F32x16 factor = F32x16::set(scale), inverse = F32x16::set(1.0f / scale);
    a = round_e4m3(a * inverse) * factor;
    b = round_e4m3(b * inverse) * factor;
}

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
