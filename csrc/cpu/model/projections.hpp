// The dense projections around attention, the same in target layers and draft stages.
#pragma once

#include <cstdint>

#include "cpu/model/step_context.hpp"
#include "cpu/model/weights.hpp"

namespace deepinfer::cpu {

// Consecutive rows and where they stand.
struct PlacedRows {
    const int64_t* positions = nullptr;
    int64_t num_rows = 0;
};

// The projections of one layer and its rotary tables.
struct Projections {
    const ProjectionWeights& weights;
    RopeWeights rope;
};

// Normed low-rank query [n, q_lora_rank] of inputs [n, D].
void query_latent(StepContext& step, const Projections& layer, const float* x, int64_t num_rows, float* out);
// Rotated key=value vectors [n, d] of inputs [n, D].
void key_value(StepContext& step, const Projections& layer, const float* x, PlacedRows rows, float* out);
// Rotated query heads [n, H, d] of low-rank queries.
void query(StepContext& step, const Projections& layer, const float* q_lora, PlacedRows rows, float* out);
// [n, D] from attention outputs [n, H, d], which are rotated back in place.
void attention_output(StepContext& step, const Projections& layer, float* heads, PlacedRows rows, float* out);

}  // namespace deepinfer::cpu
