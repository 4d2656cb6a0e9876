// Sums in the order of deepinfer/ops/reference/tree_sum.py.
#pragma once

#include "cpu/kernels/lanes.hpp"
#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

// Largest power of two below n, n > 1.
inline int64_t tree_half(int64_t n) {
    return int64_t{1} << (63 - __builtin_clzll(static_cast<unsigned long long>(n - 1)));
}

// Sum of n values, which are overwritten: the upper part is added to the lower one until one is left.
inline float tree_sum(float* x, int64_t n) {
    if (n == 0) return 0.0f;
    while (n > 1) {
        const int64_t half = tree_half(n);
        for (int64_t i = 0; i < n - half; i += 16) {
            const int lanes = lanes_left(n - half, i);
            (F32x16::load(x + i, lanes) + F32x16::load(x + half + i, lanes)).store(x + i, lanes);
        }
        n = half;
    }
    return x[0];
}

// The same of n vectors, lane by lane.
inline F32x16 tree_sum(F32x16* x, int64_t n) {
    while (n > 1) {
        const int64_t half = tree_half(n);
        for (int64_t i = 0; i < n - half; ++i) x[i] = x[i] + x[half + i];
        n = half;
    }
    return x[0];
}

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
