// Kernel of ops/engram_lookup.hpp.
#pragma once

#include "cpu/kernels/lanes.hpp"
#include "cpu/kernels/vectors.hpp"
#include "cpu/ops/engram_lookup.hpp"
#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

inline void engram_lookup(const EngramLookupArgs& args, Range rows) {
    const int64_t num_scales = (args.dim + 31) / 32;
    for (int64_t i = rows.begin; i < rows.end; ++i) {
        const int64_t row = args.rows[i];
        float* out = args.out + i * args.dim;
        if (row >= 0) {
            decode_fp8_vector(args.codes + row * args.dim, args.scales + row * num_scales, out, args.dim);
        } else {
            for (int64_t k = 0; k < args.dim; k += 16) F32x16::zero().store(out + k, lanes_left(args.dim, k));
        }
    }
}

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
