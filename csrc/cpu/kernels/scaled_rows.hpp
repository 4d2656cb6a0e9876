// Rows of x times the scales of one FP8 tile, so that a product of few rows need not scale every weight.
#pragma once

#include "cpu/kernels/e8m0.hpp"
#include "cpu/ops/row_product.hpp"
#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

// Writes x [padded_columns(num_in)] times 2^8 times the tile's scales and returns whether that is exact. Scales are
// powers of two, so then (weight * 2^-8) * out and (weight * scale) * x are the same number and fused additions of them
// the same bits. It is not exact where a product leaves the range of float32, and a NaN scale or x counts as that.
inline bool scale_row(const float* x, const uint8_t* scales, int64_t num_in, float* out) {
    uint32_t exact = 0xFFFF;
    for (int64_t k = 0; k < num_in; k += 32) {
        const int byte = scales[k / 32];
        const F32x16 scale = F32x16::set(kE8m0Times256.values[byte]);
        const F32x16 inverse = F32x16::set(kE8m0.values[byte < 246 ? 246 - byte : 0]);
        for (int64_t i = k; i < k + 32; i += 16) {
            const F32x16 lanes = F32x16::load(x + i), scaled = lanes * scale;
            scaled.store(out + i);
            exact &= (scaled * inverse == lanes).bits();
        }
    }
    return exact == 0xFFFF;
}

// Whether all rows could be scaled, into the scratch of the product, for outputs of one FP8 tile.
inline bool scale_rows(const RowProduct& product) {
    const WeightMatrix& weight = product.weight;
    const Range outputs = product.outputs;
    if (outputs.size() < 8 || outputs.begin / 32 != (outputs.end - 1) / 32) return false;
    if (product.num_rows > decoded_outputs(weight.num_in)) return false;  // what the scratch has room for
    const uint8_t* scales = weight.scales + outputs.begin / 32 * weight.scales_per_row();
    const int64_t stride = padded_columns(weight.num_in);
    for (int64_t t = 0; t < product.num_rows; ++t)
        if (!scale_row(product.row(t), scales, weight.num_in, product.scratch + t * stride)) return false;
    return true;
}

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
