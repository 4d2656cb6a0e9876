// Kernel of ops/gated_hidden.hpp.
#pragma once

#include "cpu/kernels/exact_math.hpp"
#include "cpu/kernels/prepare_rows.hpp"
#include "cpu/kernels/quantize.hpp"
#include "cpu/ops/gated_hidden.hpp"
#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

inline F32x16 gated(F32x16 gate, F32x16 up, const GatedHiddenArgs& args, float weight) {
    const F32x16 limit = F32x16::set(args.limit), lowest = F32x16::set(-args.limit);
    const F32x16 hidden = silu(F32x16::min(limit, gate)) * F32x16::max(lowest, F32x16::min(limit, up));
    return round_if(args.rounds_bf16, hidden * F32x16::set(weight));
}

inline void gated_hidden(const GatedHiddenArgs& args) {
    const int low = args.num_columns < 16 ? args.num_columns : 16, high = args.num_columns - low;
    for (int64_t t = 0; t < args.num_rows; ++t) {
        const float *gate = args.gate + 32 * t, *up = args.up + 32 * t;
        F32x16 a = gated(F32x16::load(gate, low), F32x16::load(up, low), args, args.weights[t]);
        F32x16 b = gated(F32x16::load(gate + 16, high), F32x16::load(up + 16, high), args, args.weights[t]);
        if (args.quantizes) round_fp8_group32(a, b);
        store_group(a, b, args.splits_pairs, args.out + t * args.out_stride);
    }
}

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
