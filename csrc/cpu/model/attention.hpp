// Attention over a private sliding window and shared compressed entries.
#pragma once

#include <cstdint>

#include "cpu/model/step_context.hpp"
#include "cpu/model/weights.hpp"

namespace deepinfer::cpu {

// Output [T, D] of layer `layer_id` for its normed input x [T, D]; an index source picks entries first.
void attend(StepContext& step, const LayerWeights& weights, int64_t layer_id, const float* x, float* out);

}  // namespace deepinfer::cpu
