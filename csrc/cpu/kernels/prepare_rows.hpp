// Kernel of ops/prepare_rows.hpp.
#pragma once

#include "cpu/kernels/quantize.hpp"
#include "cpu/ops/prepare_rows.hpp"
#include "cpu/ops/row_product.hpp"
#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

inline void store_group(F32x16 a, F32x16 b, bool splits_pairs, float* out) {
    if (splits_pairs) {
        F32x16 even, odd;
        F32x16::split_pairs(a, b, even, odd);
        a = even;
        b = odd;
    }
    a.store(out);
    b.store(out + 16);
}

inline void prepare_rows(const PrepareRowsArgs& args, Range rows) {
    for (int64_t t = rows.begin; t < rows.end; ++t) {
        const float* x = args.x + t * args.x_stride;
        float* out = args.out + t * padded_columns(args.dim);
        for (int64_t i = 0; i < args.dim; i += 32) {
            const int n = args.dim - i < 32 ? static_cast<int>(args.dim - i) : 32, low = n < 16 ? n : 16;
            F32x16 a = F32x16::load(x + i, low), b = F32x16::load(x + i + low, n - low);
            if (args.quantizes) round_fp8_group32(a, b);
            store_group(a, b, args.splits_pairs, out + i);
        }
    }
}

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
