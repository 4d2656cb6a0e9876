// Up to 32 columns of experts' hidden vectors: clamped SwiGLU, weighted and quantized.
#pragma once

#include <cstdint>

namespace deepinfer::cpu {

// out = silu(min(gate, limit)) * clamp(up, -limit, limit) * weight, then rounded and quantized (spec/model.md 8), laid
// out for the next product (ops/row_product.hpp): 32 columns, zeros behind the last one.
struct GatedHiddenArgs {
    const float* gate = nullptr;     // [num_rows, 32]
    const float* up = nullptr;       // [num_rows, 32]
    const float* weights = nullptr;  // [num_rows]
    float* out = nullptr;
    int64_t out_stride = 0;
    int64_t num_rows = 0;
    int num_columns = 0;  // of the 32
    float limit = 0.0f;
    bool quantizes = false;     // Q8/32
    bool rounds_bf16 = false;   // before the quantizer
    bool splits_pairs = false;  // even columns first
};

}  // namespace deepinfer::cpu
