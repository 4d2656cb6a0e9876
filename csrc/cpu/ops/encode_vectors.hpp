// Vectors as the bytes that a cache stores.
#pragma once

#include <cstdint>

#include "cpu/ops/vector_rounding.hpp"

namespace deepinfer::cpu {

class Context;

// kNone stores the float32 values themselves. (A cache that keeps rounded float32 values uses round_vectors instead.)
struct EncodeVectorsArgs {
    const float* x = nullptr;  // [num_rows, dim]
    int64_t x_stride = 0;      // elements
    uint8_t* out = nullptr;    // [num_rows, packed_bytes(rounding, dim)]
    int64_t out_stride = 0;    // bytes
    int64_t num_rows = 0;
    int64_t dim = 0;
    VectorRounding rounding = VectorRounding::kNone;
};

void encode_vectors(Context& context, const EncodeVectorsArgs& args);

}  // namespace deepinfer::cpu
