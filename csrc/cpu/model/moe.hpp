// Mixture of experts: router, routed experts, shared expert.
#pragma once

#include <cstdint>

#include "cpu/model/step_context.hpp"
#include "cpu/model/weights.hpp"

namespace deepinfer::cpu {

// Output [num_rows, D] for the normed input x [num_rows, D].
void mix_experts(StepContext& step, const MoeWeights& weights, const float* x, int64_t num_rows, float* out);

}  // namespace deepinfer::cpu
