// One draft stage: a window-only layer whose block attends to the target's context and to itself, both ways.
#pragma once

#include <cstdint>

#include "cpu/model/caches.hpp"
#include "cpu/model/layer.hpp"
#include "cpu/model/step_context.hpp"
#include "cpu/model/weights.hpp"

namespace deepinfer::cpu {

// R requests with a block of G rows each. Their keys stand in a workspace [context of request 0 | its block | context
// of request 1 | ...], W context places each. Reused from pass to pass.
struct DraftBlocks {
    StepRows rows;           // [R * G]; window_index is [R * G, W + G]
    int64_t block_size = 0;  // G
    int64_t window = 0;      // W

    int64_t keys_per_request() const { return window + block_size; }
};

// Runs one stage on the blocks, whose context keys are in `ring`.
void run_draft_stage(StepContext& step, const DraftStageWeights& weights, RopeWeights rope, const VectorCache& ring,
                     const DraftBlocks& blocks, LayerState& state);

}  // namespace deepinfer::cpu
