// Kernel of ops/hc_mix.hpp.
#pragma once

#include "cpu/kernels/dots.hpp"
#include "cpu/kernels/exact_math.hpp"
#include "cpu/kernels/lanes.hpp"
#include "cpu/kernels/rms_norm.hpp"
#include "cpu/kernels/sinkhorn.hpp"
#include "cpu/ops/hc_mix.hpp"
#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

inline constexpr int64_t kMixRows = 4;                                                    // rows side by side
inline constexpr int64_t kMixFloats = round_up_16(kMaxStreams * (kMaxStreams + 2)) + 16;  // of one row

// Products of up to four rows with fn. With less than four the rows are taken one by one; the bits are the same.
inline void mix_products(const HcMixArgs& args, Range rows, float (*m)[kMixFloats]) {
    const int64_t width = args.num_streams * args.dim, num_out = args.num_streams * (args.num_streams + 2);
    const float* f = args.streams + rows.begin * width;
    if (rows.size() < kMixRows) {
        for (int64_t row = 0; row < rows.size(); ++row)
            for (int64_t n = 0; n < num_out; n += 16)
                dots_1x16(f + row * width, args.fn + n * width, width, num_out - n, width).store(m[row] + n);
        return;
    }
    const float* const row[4] = {f, f + width, f + 2 * width, f + 3 * width};
    for (int64_t n = 0; n < num_out; n += 4) {
        alignas(64) float sums[16];
        dots_4x4(FourRows(args.fn + n * width, width, num_out - n), row, width).store(sums);
        for (int i = 0; i < 16; ++i) m[i % 4][n + i / 4] = sums[i];
    }
}

// Turns a row's products into what the exponential is taken of: -gate, and matrix minus its row maximum.
inline void mix_exponents(const HcMixArgs& args, int64_t row, float* m) {
    const int64_t size = args.num_streams, width = size * args.dim;
    const float* f = args.streams + row * width;
    const float norm = reciprocal_sqrt(sum_of_squares(f, width) / static_cast<float>(width) + args.norm_eps);
    const auto gate = [&](int64_t i, float scale) { return m[i] * norm * scale + args.base[i]; };
    for (int64_t i = 0; i < size; ++i) m[i] = -gate(i, args.scale[0]);
    for (int64_t i = size; i < 2 * size; ++i) m[i] = -gate(i, args.scale[1]);
    for (int64_t i = 2 * size; i < size * (size + 2); i += size) {
        for (int64_t j = i; j < i + size; ++j) m[j] = gate(j, args.scale[2]);
        float largest = m[i];
        for (int64_t j = i + 1; j < i + size; ++j) largest = m[j] > largest || m[j] != m[j] ? m[j] : largest;
        for (int64_t j = i; j < i + size; ++j) m[j] -= largest;
    }
}

template <int kNum>
void mix_matrices(const HcMixArgs& args, int64_t first, float (*m)[kMixFloats]) {
    const int64_t size = args.num_streams;
    F32x16 a[kNum];
    alignas(64) float lanes[16] = {};
    for (int r = 0; r < kNum; ++r) {
        for (int64_t i = 0; i < size * size; ++i) lanes[i / size * 4 + i % size] = m[r][2 * size + i];
        a[r] = F32x16::load(lanes);
    }
    alignas(64) float ones[16] = {};
    for (int64_t i = 0; i < size * size; ++i) ones[i / size * 4 + i % size] = 1.0f;
    const Mask16 inside = F32x16::load(ones) == F32x16::set(1.0f);
    if (size == 4)
        sinkhorn_4x4<kNum, true>(a, inside, args.sinkhorn_iters, args.eps);
    else
        sinkhorn_4x4<kNum, false>(a, inside, args.sinkhorn_iters, args.eps);
    for (int r = 0; r < kNum; ++r) {
        a[r].store(lanes);
        float* comb = args.comb + (first + r) * size * size;
        for (int64_t i = 0; i < size * size; ++i) comb[i] = lanes[i / size * 4 + i % size];
    }
}

inline void mix_rows(const HcMixArgs& args, Range rows) {
    const int64_t size = args.num_streams;
    alignas(64) float m[kMixRows][kMixFloats];
    mix_products(args, rows, m);
    for (int64_t r = 0; r < rows.size(); ++r) {
        mix_exponents(args, rows.begin + r, m[r]);
        for (int64_t i = 0; i < size * (size + 2); i += 16) exp(F32x16::load(m[r] + i)).store(m[r] + i);
        float* pre = args.pre + (rows.begin + r) * size;
        float* post = args.post + (rows.begin + r) * size;
        for (int64_t i = 0; i < size; ++i) pre[i] = 1.0f / (m[r][i] + 1.0f) + args.eps;
        for (int64_t i = 0; i < size; ++i) post[i] = 1.0f / (m[r][size + i] + 1.0f) * 2.0f;
    }
    if (size <= 4) {
        if (rows.size() == kMixRows) return mix_matrices<kMixRows>(args, rows.begin, m);
        for (int64_t r = 0; r < rows.size(); ++r) mix_matrices<1>(args, rows.begin + r, m + r);
        return;
    }
    for (int64_t r = 0; r < rows.size(); ++r) {
        float* comb = args.comb + (rows.begin + r) * size * size;
        for (int64_t i = 0; i < size * size; ++i) comb[i] = m[r][2 * size + i];
        sinkhorn_any(comb, size, args.sinkhorn_iters, args.eps);
    }
}

inline void hc_mix(const HcMixArgs& args, Range rows) {
    for (int64_t begin = rows.begin; begin < rows.end; begin += kMixRows)
        mix_rows(args, {begin, begin + kMixRows < rows.end ? begin + kMixRows : rows.end});
}

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
