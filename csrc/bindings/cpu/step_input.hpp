// A scheduler's plan as the native model reads it, where it lies.
#pragma once

#include "core/step_plan.hpp"
#include "cpu/model/step_input.hpp"

namespace deepinfer {

// Without wanted rows. Valid as long as the plan.
inline cpu::StepInput step_input(const StepPlan& plan) {
    return {.num_seqs = plan.num_seqs(),
            .num_rows = plan.num_tokens(),
            .num_lookback = plan.num_lookback,
            .keeps_draft_context = plan.keeps_draft_context,
            .cu_seqlens_q = plan.cu_seqlens_q.data(),
            .context_lens = plan.context_lens.data(),
            .state_slots = plan.state_slots.data(),
            .block_ids = plan.block_ids.data(),
            .cu_blocks = plan.cu_blocks.data(),
            .token_ids = plan.token_ids.data(),
            .lookback_ids = plan.lookback_ids.data(),
            .window_starts = plan.window_starts.data(),
            .entry_starts = plan.entry_starts.data(),
            .consumer_starts = plan.consumer_starts.data()};
}

}  // namespace deepinfer
