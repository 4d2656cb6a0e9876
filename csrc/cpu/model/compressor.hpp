// Compression of hidden states into key=value entries and index keys.
#pragma once

#include <cstdint>

#include "cpu/model/step_context.hpp"
#include "cpu/model/weights.hpp"

namespace deepinfer::cpu {

// Stores the entries of layer `layer_id`, a KV source, that the attention inputs x [T, D] complete.
void compress(StepContext& step, const LayerWeights& weights, int64_t layer_id, const float* x);

}  // namespace deepinfer::cpu
