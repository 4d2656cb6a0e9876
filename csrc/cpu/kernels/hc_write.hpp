// Kernel of ops/hc_write.hpp.
#pragma once

#include "cpu/kernels/lanes.hpp"
#include "cpu/kernels/round.hpp"
#include "cpu/ops/hc_write.hpp"
#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

// kSize: number of streams, or 0 for any.
template <int kSize>
void write_row(const HcWriteArgs& args, int64_t row) {
    const int64_t size = kSize > 0 ? kSize : args.num_streams;
    const float* streams = args.streams + row * size * args.dim;
    float* new_streams = args.new_streams + row * size * args.dim;
    const float* out = args.out + row * args.dim;
    const float* post = args.post + row * size;
    const float* comb = args.comb + row * size * size;
    for (int64_t i = 0; i < args.dim; i += 16) {
        const int n = lanes_left(args.dim, i);
        F32x16 old[kSize > 0 ? kSize : kMaxStreams];
        for (int64_t s = 0; s < size; ++s) old[s] = F32x16::load(streams + s * args.dim + i, n);
        const F32x16 own = F32x16::load(out + i, n);
        for (int64_t j = 0; j < size; ++j) {
            F32x16 sum = F32x16::set(post[j]) * own;
            for (int64_t s = 0; s < size; ++s) sum = F32x16::fma(F32x16::set(comb[s * size + j]), old[s], sum);
            round_if(args.rounds_bf16, sum).store(new_streams + j * args.dim + i, n);
        }
    }
}

inline void hc_write(const HcWriteArgs& args, Range rows) {
    for (int64_t row = rows.begin; row < rows.end; ++row) {
        if (args.num_streams == 4)
            write_row<4>(args, row);
        else
            write_row<0>(args, row);
    }
}

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
