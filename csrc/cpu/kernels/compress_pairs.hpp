// Kernel of ops/compress_pairs.hpp.
#pragma once

#include "cpu/kernels/exact_math.hpp"
#include "cpu/kernels/lanes.hpp"
#include "cpu/kernels/round.hpp"
#include "cpu/ops/compress_pairs.hpp"
#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

inline void compress_pairs(const CompressPairsArgs& args, Range pairs) {
    for (int64_t pair = pairs.begin; pair < pairs.end; ++pair) {
        const float* first = args.first[pair];
        const float* second = args.second[pair];
        for (int64_t i = 0; i < args.dim; i += 16) {
            const int n = lanes_left(args.dim, i);
            const F32x16 score0 = F32x16::load(first + i, n), score1 = F32x16::load(second + i, n);
            const F32x16 largest = F32x16::max(score0, score1);
            const F32x16 e0 = exp(score0 - largest), e1 = exp(score1 - largest);
            const F32x16 value0 = F32x16::load(first + args.dim + i, n),
                         value1 = F32x16::load(second + args.dim + i, n);
            const F32x16 y = (e0 * value0 + e1 * value1) / (e0 + e1);
            round_if(args.rounds_bf16, y).store(args.out + pair * args.dim + i, n);
        }
    }
}

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
