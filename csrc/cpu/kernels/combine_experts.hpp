// Kernel of ops/combine_experts.hpp.
#pragma once

#include "cpu/kernels/round.hpp"
#include "cpu/ops/combine_experts.hpp"
#include "cpu/range.hpp"
#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

inline void combine_experts(const CombineExpertsArgs& args, Range rows) {
    for (int64_t t = rows.begin; t < rows.end; ++t) {
        const int32_t* slots = args.slots + t * args.top_k;
        const float* shared = args.shared == nullptr ? nullptr : args.shared + t * args.dim;
        float* out = args.out + t * args.out_stride;
        for (int64_t i = 0; i < args.dim; i += 16) {
            const int n = args.dim - i < 16 ? static_cast<int>(args.dim - i) : 16;
            const float* first = args.top_k == 0 ? shared + i : args.routed + slots[0] * args.dim + i;
            F32x16 sum = F32x16::load(first, n);
            for (int64_t rank = 1; rank < args.top_k; ++rank)
                sum = sum + F32x16::load(args.routed + slots[rank] * args.dim + i, n);
            if (shared != nullptr && args.top_k != 0) sum = sum + F32x16::load(shared + i, n);
            round_if(args.rounds_bf16, sum).store(out + i, n);
        }
    }
}

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
