// Kernel of ops/score_tokens.hpp.
#pragma once

#include "cpu/kernels/argmax_rows.hpp"
#include "cpu/kernels/exact_math.hpp"
#include "cpu/kernels/lanes.hpp"
#include "cpu/kernels/tree_sum.hpp"
#include "cpu/ops/score_tokens.hpp"
#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

inline int64_t count_above(const float* logits, int64_t n, int64_t token) {
    const F32x16 own = F32x16::set(logits[token]);
    int64_t count = 0;
    for (int64_t i = 0; i < n; i += 16) {
        const int lanes = lanes_left(n, i);
        const F32x16 x = F32x16::load(logits + i, lanes);
        const uint32_t inside = (1u << lanes) - 1u;
        const int64_t before = token - i;
        const uint32_t earlier = before >= 16 ? 0xFFFFu : before > 0 ? (1u << before) - 1u : 0u;
        count +=
            __builtin_popcount((own < x).bits() & inside) + __builtin_popcount((own == x).bits() & earlier & inside);
    }
    return count;
}

// exponentials: num_logits floats.
inline void score_tokens(const ScoreTokensArgs& args, Range rows, float* exponentials) {
    for (int64_t row = rows.begin; row < rows.end; ++row) {
        const float* logits = args.logits + row * args.stride;
        bool has_nan;
        const float largest = row_maximum(logits, args.num_logits, has_nan);
        for (int64_t i = 0; i < args.num_logits; i += 16) {
            const int n = lanes_left(args.num_logits, i);
            const F32x16 shifted = F32x16::load(logits + i, n) - F32x16::set(largest);
            exp(F32x16::max(F32x16::set(-100.0f), shifted)).store(exponentials + i, n);
        }
        const float total = tree_sum(exponentials, args.num_logits);
        args.logprobs[row] = (logits[args.tokens[row]] - largest) - log(total);
        if (args.ranks != nullptr) args.ranks[row] = 1 + count_above(logits, args.num_ids, args.tokens[row]);
    }
}

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
