// Kernel of ops/apply_rope.hpp.
#pragma once

#include "cpu/kernels/lanes.hpp"
#include "cpu/kernels/round.hpp"
#include "cpu/ops/apply_rope.hpp"
#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

// factors: 2 * rotated floats. Column 2j and 2j + 1 get cos_j; -sin_j and sin_j, so that with the swapped pair
// x * factor + swapped * other is even * cos - odd * sin and odd * cos + even * sin.
inline void spread_angle(const ApplyRopeArgs& args, int64_t row, float* factors) {
    const int64_t half = args.rotated / 2;
    const int64_t position = args.positions == nullptr ? row : args.positions[row];
    const float* cos = args.cos + position * half;
    const float* sin = args.sin + position * half;
    const float sign = args.inverse ? -1.0f : 1.0f;
    for (int64_t j = 0; j < half; ++j) {
        factors[2 * j] = factors[2 * j + 1] = cos[j];
        factors[args.rotated + 2 * j] = -sign * sin[j];
        factors[args.rotated + 2 * j + 1] = sign * sin[j];
    }
}

// factors: 2 * rotated floats of working memory.
inline void apply_rope(const ApplyRopeArgs& args, Range rows, float* factors) {
    const int64_t begin = args.dim - args.rotated;
    for (int64_t row = rows.begin; row < rows.end; ++row) {
        spread_angle(args, row, factors);
        for (int64_t head = 0; head < args.num_heads; ++head) {
            const int64_t at = (row * args.num_heads + head) * args.dim;
            const float* x = args.x + at;
            float* out = args.out + at;
            if (out != x)
                for (int64_t i = 0; i < begin; i += 16) {
                    const int n = lanes_left(begin, i);
                    F32x16::load(x + i, n).store(out + i, n);
                }
            for (int64_t i = 0; i < args.rotated; i += 16) {
                const int n = lanes_left(args.rotated, i);
                const F32x16 v = F32x16::load(x + begin + i, n);
                const F32x16 own = v * F32x16::load(factors + i, n);
                const F32x16 other = v.swap_lanes<1>() * F32x16::load(factors + args.rotated + i, n);
                round_if(args.rounds_bf16, own + other).store(out + begin + i, n);
            }
        }
    }
}

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
