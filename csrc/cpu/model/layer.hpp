// One transformer layer: Engram if it has one, attention, MoE, each behind hyper-connections.
#pragma once

#include <cstdint>

#include "cpu/model/hyper_connection.hpp"
#include "cpu/model/step_context.hpp"
#include "cpu/model/weights.hpp"

namespace deepinfer::cpu {

// What the layers hand on to each other. Arrays have room for all rows of the step.
struct LayerState {
    Streams streams;
    float* x = nullptr;         // [T, D] input of a sublayer
    float* out = nullptr;       // [T, D] its output
    int64_t* ngrams = nullptr;  // [T, num_ngrams]; nullptr without Engram
};

// Runs layer `layer_id` on the step's rows. The first consumer layer makes entries of all rows and goes on with those
// of `consumers`, if there are any (YOCO prefill, spec/model.md 11): fewer rows, down to none, or shorter windows.
void run_layer(StepContext& step, const LayerWeights& weights, int64_t layer_id, LayerState& state,
               const StepRows* consumers);

}  // namespace deepinfer::cpu
