// Kernel of ops/hc_read.hpp.
#pragma once

#include "cpu/kernels/lanes.hpp"
#include "cpu/kernels/rms_norm.hpp"
#include "cpu/kernels/round.hpp"
#include "cpu/kernels/tree_sum.hpp"
#include "cpu/ops/hc_read.hpp"
#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

// Columns i .. i + lanes - 1 of sum_s weight[s] * streams[s], in the order of the reference's tree.
inline F32x16 weighted_streams(const float* streams, const float* weight, int64_t num_streams, int64_t dim, int64_t i) {
    const int n = lanes_left(dim, i);
    F32x16 terms[kMaxStreams];
    for (int64_t s = 0; s < num_streams; ++s)
        terms[s] = F32x16::load(streams + s * dim + i, n) * F32x16::set(weight[s]);
    return tree_sum(terms, num_streams);
}

inline F32x16 weighted_four(const float* streams, const float* weight, int64_t dim, int64_t i) {
    const int n = lanes_left(dim, i);
    const auto term = [&](int s) { return F32x16::load(streams + s * dim + i, n) * F32x16::set(weight[s]); };
    return (term(0) + term(2)) + (term(1) + term(3));
}

inline void hc_read(const HcReadArgs& args, Range rows) {
    for (int64_t row = rows.begin; row < rows.end; ++row) {
        const float* streams = args.streams + row * args.num_streams * args.dim;
        const float* pre = args.pre + row * args.num_streams;
        float* out = args.out + row * args.dim;
        for (int64_t i = 0; i < args.dim; i += 16) {
            const F32x16 sum = args.num_streams == 4 ? weighted_four(streams, pre, args.dim, i)
                                                     : weighted_streams(streams, pre, args.num_streams, args.dim, i);
            round_if(args.rounds_bf16, sum).store(out + i, lanes_left(args.dim, i));
        }
        if (args.norms) rms_norm({out, args.norm_weight, out, 1, args.dim, args.eps, args.rounds_bf16}, {0, 1});
    }
}

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
