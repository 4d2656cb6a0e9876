// Final norm and output projection.
#pragma once

#include <cstdint>

#include "cpu/model/hyper_connection.hpp"
#include "cpu/model/step_context.hpp"
#include "cpu/model/weights.hpp"

namespace deepinfer::cpu {

// Normed hidden states [L, D] of the wanted rows.
void final_hidden(StepContext& step, const float* norm, const Streams& streams, float* hidden);

// Logits float32 [n, vocab] of hidden states [n, D].
void output_logits(StepContext& step, const WeightMatrix& head, const float* hidden, int64_t num_rows, float* logits);

}  // namespace deepinfer::cpu
