// The values that are left after a quantizer and its inverse, without the codes in between.
#pragma once

#include <cstdint>

#include "cpu/ops/vector_rounding.hpp"

namespace deepinfer::cpu {

class Context;

// out = decoded(encoded(x)), bit for bit. May work in place.
struct RoundVectorsArgs {
    const float* x = nullptr;  // [num_rows, dim]
    int64_t x_stride = 0;
    float* out = nullptr;  // [num_rows, dim]
    int64_t out_stride = 0;
    int64_t num_rows = 0;
    int64_t dim = 0;
    VectorRounding rounding = VectorRounding::kNone;
};

void round_vectors(Context& context, const RoundVectorsArgs& args);

}  // namespace deepinfer::cpu
