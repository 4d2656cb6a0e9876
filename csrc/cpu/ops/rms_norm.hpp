// Root-mean-square normalisation of rows.
#pragma once

#include <cstdint>

#include "cpu/range.hpp"

namespace deepinfer::cpu {

class Context;

// out = x * rsqrt(mean(x^2) + eps) * weight. May work in place.
struct RmsNormArgs {
    const float* x = nullptr;       // [num_rows, dim]
    const float* weight = nullptr;  // [dim], nullptr for ones
    float* out = nullptr;           // [num_rows, dim]
    int64_t num_rows = 0;
    int64_t dim = 0;
    float eps = 0.0f;
    bool rounds_bf16 = false;  // results are rounded to bf16 values
};

void rms_norm(Context& context, const RmsNormArgs& args);

}  // namespace deepinfer::cpu
