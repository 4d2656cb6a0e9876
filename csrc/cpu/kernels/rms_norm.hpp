// Kernel of ops/rms_norm.hpp.
#pragma once

#include "cpu/kernels/lanes.hpp"
#include "cpu/kernels/round.hpp"
#include "cpu/ops/rms_norm.hpp"
#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

inline float sum_of_squares(const float* x, int64_t n) {
    F32x16 sum = F32x16::zero();
    for (int64_t i = 0; i < n; i += 16) {
        const F32x16 v = F32x16::load(x + i, lanes_left(n, i));
        sum = F32x16::fma(v, v, sum);
    }
    return sum.sum();
}

inline void rms_norm(const RmsNormArgs& args, Range rows) {
    for (int64_t row = rows.begin; row < rows.end; ++row) {
        const float* x = args.x + row * args.dim;
        float* out = args.out + row * args.dim;
        const float mean = sum_of_squares(x, args.dim) / static_cast<float>(args.dim);
        const F32x16 factor = F32x16::set(1.0f) / F32x16::set(mean + args.eps).sqrt();
        for (int64_t i = 0; i < args.dim; i += 16) {
            const int n = lanes_left(args.dim, i);
            F32x16 y = F32x16::load(x + i, n) * factor;
            if (args.weight != nullptr) y = y * F32x16::load(args.weight + i, n);
            round_if(args.rounds_bf16, y).store(out + i, n);
        }
    }
}

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
