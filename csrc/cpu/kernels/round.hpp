// Rounding of float32 lanes to coarser formats, results staying float32.
#pragma once

#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

// Nearest bf16 value, ties to even; infinities and NaN stay what they are.
inline F32x16 round_bf16(F32x16 x) {
    const I32x16 bits = x.bits();
    const I32x16 odd = bits.shift_right<16>() & I32x16::set(1);
    const I32x16 rounded = (bits + I32x16::set(0x7FFF) + odd) & I32x16::set(static_cast<int32_t>(0xFFFF0000u));
    return F32x16::select(x == x, F32x16::from_bits(rounded), x);
}

inline F32x16 round_if(bool rounds_bf16, F32x16 x) {
    return rounds_bf16 ? round_bf16(x) : x;
}

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
