// Engram: hashed n-gram memory added to the residual streams.
#pragma once

#include <cstdint>

#include "cpu/model/step_context.hpp"
#include "cpu/model/weights.hpp"

namespace deepinfer::cpu {

// Compressed ids [T, num_ngrams] of each row's token and its predecessors, nearest first, from the plan's tokens.
void fill_ngrams(const ModelConfig& config, const StepInput& input, const int64_t* vocabulary, int64_t* ngrams);

// Adds the gated memory of each row's n-grams [T, num_ngrams] to its streams [T, S, D], in place.
void add_memory(StepContext& step, const EngramWeights& weights, const int64_t* ngrams, float* streams);

}  // namespace deepinfer::cpu
