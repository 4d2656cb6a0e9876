// The indexer: picks the compressed entries that a layer and its readers attend to.
#pragma once

#include <cstdint>

#include "cpu/model/step_context.hpp"
#include "cpu/model/weights.hpp"

namespace deepinfer::cpu {

// Fills step.picks (and step.candidates, if this is their source) for layer `layer_id`, an index source, from the
// attention input x [T, D] and the low-rank query q_lora [T, q_lora_rank]. A row that sees at most index_topk entries
// takes them all; only the others are scored.
void pick_entries(StepContext& step, const LayerWeights& weights, int64_t layer_id, const float* x,
                  const float* q_lora);

}  // namespace deepinfer::cpu
