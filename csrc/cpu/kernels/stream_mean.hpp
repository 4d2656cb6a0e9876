// Kernel of ops/stream_mean.hpp.
#pragma once

#include "cpu/kernels/hc_read.hpp"
#include "cpu/kernels/lanes.hpp"
#include "cpu/kernels/round.hpp"
#include "cpu/ops/stream_mean.hpp"
#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

inline void stream_mean(const StreamMeanArgs& args, Range rows) {
    float ones[kMaxStreams];
    for (float& one : ones) one = 1.0f;
    const F32x16 count = F32x16::set(static_cast<float>(args.num_streams));
    for (int64_t row = rows.begin; row < rows.end; ++row) {
        const float* streams = args.streams + row * args.num_streams * args.dim;
        for (int64_t i = 0; i < args.dim; i += 16) {
            const F32x16 mean = weighted_streams(streams, ones, args.num_streams, args.dim, i) / count;
            round_if(args.rounds_bf16, mean).store(args.out + row * args.dim + i, lanes_left(args.dim, i));
        }
    }
}

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
