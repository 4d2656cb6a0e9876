// The streams that a forward pass begins with.
#pragma once

#include <cstdint>

#include "cpu/model/layer.hpp"
#include "cpu/model/step_context.hpp"
#include "cpu/model/weights.hpp"

namespace deepinfer::cpu {

// Takes memory for the streams of the step's rows and fills it: equal streams, the embeddings of the tokens [T]; the
// first read takes stream 0.
Streams embed(StepContext& step, const WeightMatrix& embedding, const int64_t* tokens);

// Throws std::invalid_argument that names a token outside the vocabulary.
void check_token(const ModelConfig& config, int64_t token);

}  // namespace deepinfer::cpu
