// Products with weight matrices, their scratch memory taken from the workspace.
#pragma once

#include <cstdint>

#include "cpu/model/step_context.hpp"
#include "cpu/ops/weight_matrix.hpp"

namespace deepinfer::cpu {

struct LinearArgs {
    const float* x = nullptr;  // [num_rows, num_in], one row behind the other
    float* out = nullptr;      // [num_rows, num_out]
    int64_t num_rows = 0;
    int64_t num_groups = 1;   // block-diagonal product
    int64_t out_stride = 0;   // 0: num_out
    bool keeps_fp32 = false;  // the result is not rounded, whatever the numerics
};

// The input of a quantized matrix passes the activation quantizer if the numerics say so.
void linear(StepContext& step, const WeightMatrix& weight, const LinearArgs& args);

}  // namespace deepinfer::cpu
