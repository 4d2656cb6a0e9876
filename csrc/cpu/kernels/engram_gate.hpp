// Kernel of ops/engram_gate.hpp.
#pragma once

#include "cpu/kernels/exact_math.hpp"
#include "cpu/kernels/lanes.hpp"
#include "cpu/kernels/rms_norm.hpp"
#include "cpu/kernels/round.hpp"
#include "cpu/ops/engram_gate.hpp"
#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

// sum of r * (q * k_weight) * key
inline float weighted_dot(const float* r, const float* key, const float* q_weight, const float* k_weight, int64_t dim) {
    F32x16 sum = F32x16::zero();
    for (int64_t i = 0; i < dim; i += 16) {
        const int n = lanes_left(dim, i);
        const F32x16 weight = F32x16::load(q_weight + i, n) * F32x16::load(k_weight + i, n);
        sum = F32x16::fma(F32x16::load(r + i, n) * weight, F32x16::load(key + i, n), sum);
    }
    return sum.sum();
}

inline float engram_gate_value(float dot) {
    const float magnitude = __builtin_fabsf(dot);
    const F32x16 root = exact_sqrt(F32x16::set(magnitude < 1e-6f ? 1e-6f : magnitude));
    return sigmoid(__builtin_signbit(dot) ? F32x16::zero() - root : root).max_lane();
}

inline void engram_gate(const EngramGateArgs& args, Range rows) {
    const float dim = static_cast<float>(args.dim);
    for (int64_t row = rows.begin; row < rows.end; ++row) {
        const float* value = args.value + row * args.value_stride;
        for (int64_t s = 0; s < args.num_streams; ++s) {
            const float* r = args.streams + (row * args.num_streams + s) * args.dim;
            float* out = args.out + (row * args.num_streams + s) * args.dim;
            const float* key = args.keys + row * args.keys_stride + s * args.dim;
            const float norm_r = reciprocal_sqrt(sum_of_squares(r, args.dim) / dim + args.eps);
            const float norm_k = reciprocal_sqrt(sum_of_squares(key, args.dim) / dim + args.eps);
            const int64_t at = s * args.dim;
            const float dot = weighted_dot(r, key, args.q_weight + at, args.k_weight + at, args.dim);
            const F32x16 gate = F32x16::set(engram_gate_value(dot * norm_r * norm_k * args.dot_scale));
            for (int64_t i = 0; i < args.dim; i += 16) {
                const int n = lanes_left(args.dim, i);
                const F32x16 y = F32x16::load(r + i, n) + gate * F32x16::load(value + i, n);
                round_if(args.rounds_bf16, y).store(out + i, n);
            }
        }
    }
}

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
