// Lane bookkeeping of loops in steps of sixteen.
#pragma once

#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

// Lanes that the last step of a loop over n elements in steps of 16 has, at element i.
inline int lanes_left(int64_t n, int64_t i) {
    return n - i < 16 ? static_cast<int>(n - i) : 16;
}

constexpr int64_t round_up_16(int64_t n) {
    return (n + 15) / 16 * 16;
}

// begin, begin + 1, ... as float32; exact up to 2^24.
inline F32x16 lane_numbers(int64_t begin = 0) {
    alignas(64) static constexpr int32_t kNumbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return F32x16::from_int(I32x16::load(kNumbers) + I32x16::set(static_cast<int32_t>(begin)));
}

// The first n lanes.
inline Mask16 first_lanes(int n) {
    return lane_numbers() < F32x16::set(static_cast<float>(n));
}

inline F32x16 load_or(const float* p, int n, float other) {
    if (n == 16) return F32x16::load(p);
    return F32x16::select(first_lanes(n), F32x16::load(p, n), F32x16::set(other));
}

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
