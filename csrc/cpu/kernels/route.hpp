// Kernel of ops/route.hpp.
#pragma once

#include "cpu/kernels/exact_math.hpp"
#include "cpu/kernels/lanes.hpp"
#include "cpu/kernels/tree_sum.hpp"
#include "cpu/ops/route.hpp"
#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

inline constexpr float kLeastFloat = -3.4028234663852886e38f;

// Lowest number of the largest of n values (n > 0, a multiple of 16, no NaN).
inline int64_t first_maximum(const float* x, int64_t n) {
    F32x16 largest = F32x16::load(x);
    for (int64_t i = 16; i < n; i += 16) largest = F32x16::max(largest, F32x16::load(x + i));
    largest = F32x16::set(largest.max_lane());
    for (int64_t i = 0;; i += 16) {
        const uint32_t found = (F32x16::load(x + i) == largest).bits();
        if (found != 0) return i + __builtin_ctz(found);
    }
}

// Scores, and what they compete by: -inf is for experts that are taken, so nothing else may be below kLeastFloat; NaN
// is best, as in a descending sort.
inline void route_scores(const RouteArgs& args, const float* logits, float* score, float* rank) {
    for (int64_t i = 0; i < args.num_experts; i += 16) {
        const int n = lanes_left(args.num_experts, i);
        const F32x16 s = exact_sqrt(softplus(F32x16::load(logits + i, n)));
        const F32x16 biased = s + F32x16::load(args.bias + i, n);
        s.store(score + i);
        const F32x16 bounded = F32x16::max(F32x16::set(kLeastFloat), biased);
        const F32x16 ordered = F32x16::select(biased == biased, bounded, F32x16::set(kInfinity));
        F32x16::select(first_lanes(n), ordered, F32x16::set(-kInfinity)).store(rank + i);
    }
}

inline void route_row(const RouteArgs& args, int64_t row, float* score, float* rank) {
    const int64_t padded = round_up_16(args.num_experts);
    float* chosen = rank + padded;
    float* weights = args.weights + row * args.top_k;
    int64_t* ids = args.ids + row * args.top_k;
    route_scores(args, args.logits + row * args.num_experts, score, rank);
    for (int64_t k = 0; k < args.top_k; ++k) {
        const int64_t id = first_maximum(rank, padded);
        rank[id] = -kInfinity;
        ids[k] = id;
        weights[k] = chosen[k] = score[id];
    }
    if (args.normalizes) {
        const float sum = tree_sum(chosen, args.top_k) + 1e-20f;
        for (int64_t k = 0; k < args.top_k; ++k) weights[k] = weights[k] / sum;
    }
    for (int64_t k = 0; k < args.top_k; ++k) weights[k] *= args.scaling;
    if (args.margin == nullptr) return;
    args.margin[row] = kInfinity;
    if (args.top_k == 0 || args.top_k == args.num_experts) return;
    const int64_t last = ids[args.top_k - 1], next = first_maximum(rank, padded);
    args.margin[row] = (score[last] + args.bias[last]) - (score[next] + args.bias[next]);
}

// scratch: 2 * (num_experts rounded up to 16) + top_k floats.
inline void route(const RouteArgs& args, Range rows, float* scratch) {
    for (int64_t row = rows.begin; row < rows.end; ++row)
        route_row(args, row, scratch, scratch + round_up_16(args.num_experts));
}

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
