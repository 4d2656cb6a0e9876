// Sinkhorn normalisation of small square matrices (spec/model.md 3).
#pragma once

#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

// For up to 4 x 4 in one register, entry (i, j) in lane 4 * i + j and zeros elsewhere. kNum independent matrices go
// side by side, because every step waits for the one before. kFull: 4 x 4, no lane has to be kept zero.
template <int kNum, bool kFull>
void sinkhorn_4x4(F32x16 (&a)[kNum], Mask16 inside, int64_t iters, float eps) {
    const F32x16 bias = F32x16::set(eps), zero = F32x16::zero();
    const auto divide = [&](F32x16 x, F32x16 sum) { return kFull ? x / sum : F32x16::select(inside, x / sum, zero); };
    const auto row_sum = [](F32x16 x) {
        x = x + x.swap_lanes<1>();
        return x + x.swap_lanes<2>();
    };
    const auto column_sum = [](F32x16 x) {
        x = x + x.swap_lanes<8>();
        return x + x.swap_lanes<4>();
    };
    const F32x16 first_bias = kFull ? bias : F32x16::select(inside, bias, zero);
    for (F32x16& x : a) x = divide(x, row_sum(x)) + first_bias;
    for (F32x16& x : a) x = divide(x, column_sum(x) + bias);
    for (int64_t iter = 1; iter < iters; ++iter) {
        for (F32x16& x : a) x = divide(x, row_sum(x) + bias);
        for (F32x16& x : a) x = divide(x, column_sum(x) + bias);
    }
}

// Any size, row by row in memory.
inline void divide_rows(float* a, int64_t size, float eps) {
    for (int64_t i = 0; i < size; ++i) {
        float sum = eps;
        for (int64_t j = 0; j < size; ++j) sum += a[i * size + j];
        for (int64_t j = 0; j < size; ++j) a[i * size + j] /= sum;
    }
}

inline void divide_columns(float* a, int64_t size, float eps) {
    for (int64_t j = 0; j < size; ++j) {
        float sum = eps;
        for (int64_t i = 0; i < size; ++i) sum += a[i * size + j];
        for (int64_t i = 0; i < size; ++i) a[i * size + j] /= sum;
    }
}

inline void sinkhorn_any(float* a, int64_t size, int64_t iters, float eps) {
    divide_rows(a, size, 0.0f);
    for (int64_t i = 0; i < size * size; ++i) a[i] += eps;
    divide_columns(a, size, eps);
    for (int64_t iter = 1; iter < iters; ++iter) {
        divide_rows(a, size, eps);
        divide_columns(a, size, eps);
    }
}

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
