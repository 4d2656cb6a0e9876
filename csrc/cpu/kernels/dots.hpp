// Dot products of float32 vectors: one accumulator of sixteen lanes each, a halving tree over the lanes at the end. How
// many are computed at a time does not change a bit.
#pragma once

#include "cpu/kernels/lanes.hpp"
#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

// Lane i is the sum() of sums[i]. Overwrites sums.
inline F32x16 sums_of_16(F32x16 (&sums)[16]) {
    for (int i = 0; i < 8; ++i) sums[i] = F32x16::pair_sums<8>(sums[i], sums[i + 8]);
    for (int i = 0; i < 4; ++i) sums[i] = F32x16::pair_sums<4>(sums[i], sums[i + 4]);
    for (int i = 0; i < 2; ++i) sums[i] = F32x16::pair_sums<2>(sums[i], sums[i + 2]);
    return F32x16::pair_sums<1>(sums[0], sums[1]);
}

// Four neighbouring vectors' starts; places behind `count` repeat the last one, whose results nobody uses.
struct FourRows {
    const float* row[4];

    FourRows(const float* first, int64_t stride, int64_t count) {
        for (int i = 0; i < 4; ++i) row[i] = first + (i < count ? i : count - 1) * stride;
    }
};

// Lane 4 * i + j is the dot product of a.row[i] and b[j].
inline F32x16 dots_4x4(const FourRows& a, const float* const* b, int64_t n) {
    F32x16 sums[16];
    for (F32x16& sum : sums) sum = F32x16::zero();
    const auto step = [&](int64_t k, auto load) {
        const F32x16 b0 = load(b[0] + k), b1 = load(b[1] + k), b2 = load(b[2] + k), b3 = load(b[3] + k);
        for (int i = 0; i < 4; ++i) {
            const F32x16 x = load(a.row[i] + k);
            sums[4 * i] = F32x16::fma(x, b0, sums[4 * i]);
            sums[4 * i + 1] = F32x16::fma(x, b1, sums[4 * i + 1]);
            sums[4 * i + 2] = F32x16::fma(x, b2, sums[4 * i + 2]);
            sums[4 * i + 3] = F32x16::fma(x, b3, sums[4 * i + 3]);
        }
    };
    int64_t k = 0;
    for (; k + 16 <= n; k += 16) step(k, [](const float* p) { return F32x16::load(p); });
    if (k < n) step(k, [&](const float* p) { return F32x16::load(p, static_cast<int>(n - k)); });
    return sums_of_16(sums);
}

// Lane j is the dot product of a and row j of b; rows behind `count` repeat the last one.
inline F32x16 dots_1x16(const float* a, const float* b, int64_t stride, int64_t count, int64_t n) {
    F32x16 sums[16];
    const float* row[16];
    for (int j = 0; j < 16; ++j) {
        sums[j] = F32x16::zero();
        row[j] = b + (j < count ? j : count - 1) * stride;
    }
    int64_t k = 0;
    for (; k + 16 <= n; k += 16) {
        const F32x16 x = F32x16::load(a + k);
        for (int j = 0; j < 16; ++j) sums[j] = F32x16::fma(x, F32x16::load(row[j] + k), sums[j]);
    }
    if (k < n) {
        const int lanes = static_cast<int>(n - k);
        const F32x16 x = F32x16::load(a + k, lanes);
        for (int j = 0; j < 16; ++j) sums[j] = F32x16::fma(x, F32x16::load(row[j] + k, lanes), sums[j]);
    }
    return sums_of_16(sums);
}

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
