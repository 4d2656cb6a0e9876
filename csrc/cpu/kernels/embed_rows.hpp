// Kernel of ops/embed_rows.hpp.
#pragma once

#include "cpu/kernels/lanes.hpp"
#include "cpu/kernels/round.hpp"
#include "cpu/ops/embed_rows.hpp"
#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

inline void embed_rows(const EmbedRowsArgs& args, Range rows) {
    for (int64_t row = rows.begin; row < rows.end; ++row) {
        const int64_t at = args.tokens[row] * args.dim;
        const uint16_t* half = static_cast<const uint16_t*>(args.table) + at;
        const float* full = static_cast<const float*>(args.table) + at;
        float* out = args.out + row * args.num_streams * args.dim;
        for (int64_t i = 0; i < args.dim; i += 16) {
            const int n = lanes_left(args.dim, i);
            F32x16 x;
            if (args.table_is_bf16)
                x = n == 16 ? F32x16::load_bf16(half + i) : F32x16::load_bf16(half + i, n);
            else
                x = round_if(args.rounds_bf16, F32x16::load(full + i, n));
            for (int64_t s = 0; s < args.num_streams; ++s) x.store(out + s * args.dim + i, n);
        }
    }
}

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
