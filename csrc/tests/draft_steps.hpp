// Steps of a small scheduler by hand, with every invariant checked.
#pragma once

#include <initializer_list>
#include <numeric>
#include <utility>
#include <vector>

#include "core/scheduler.hpp"

namespace deepinfer::testing {

using Ids = std::vector<int64_t>;
using Tokens = std::vector<int32_t>;

inline SchedulerConfig draft_config() {
    return {.num_blocks = 16,
            .block_size = 2,
            .num_state_slots = 4,
            .max_num_seqs = 4,
            .max_num_batched_tokens = 16,
            .max_prefill_chunk = 16,
            .max_model_len = 64,
            .num_lookback = 2,
            .num_drafts = 3};
}

inline SequenceSpec spec_of(int64_t seq_id, int64_t prompt_len, int64_t max_tokens, Tokens stops = {}) {
    return {seq_id, Tokens(static_cast<size_t>(prompt_len), 1), max_tokens, std::move(stops)};
}

inline StepPlan plan_next(Scheduler& scheduler) {
    const StepPlan plan = *scheduler.schedule();
    scheduler.check();
    return plan;
}

inline StepUpdate book(Scheduler& scheduler, const StepPlan& plan, Tokens tokens, Tokens cu_tokens,
                       Tokens drafts = {}) {
    scheduler.check();
    StepUpdate update = scheduler.update(plan.step_id, tokens, cu_tokens, {drafts, {}});
    scheduler.check();
    return update;
}

inline StepUpdate book_rated(Scheduler& scheduler, const StepPlan& plan, Tokens drafts,
                             std::vector<float> confidences) {
    Tokens cu_tokens(plan.seq_ids.size() + 1);
    std::iota(cu_tokens.begin(), cu_tokens.end(), 0);
    StepUpdate update =
        scheduler.update(plan.step_id, Tokens(plan.seq_ids.size(), 5), cu_tokens, {drafts, confidences});
    scheduler.check();
    return update;
}

// Computes the prompts of all sequences; each gets the token 5 and the drafts 6, 7, 8, ..., all of one confidence.
inline void prefill(Scheduler& scheduler, float confidence = 1.0F) {
    while (scheduler.num_waiting() > 0) {
        const StepPlan plan = plan_next(scheduler);
        Tokens drafts;
        for (int64_t i = 0; i < plan.num_seqs() * scheduler.config().num_drafts; ++i) {
            drafts.push_back(6 + static_cast<int32_t>(i % scheduler.config().num_drafts));
        }
        book_rated(scheduler, plan, drafts, std::vector<float>(drafts.size(), confidence));
    }
}

inline void begin(Scheduler& scheduler, std::initializer_list<SequenceSpec> specs, float confidence = 1.0F) {
    for (const SequenceSpec& spec : specs) scheduler.add(spec);
    prefill(scheduler, confidence);
}

// Two steps in flight.
inline std::pair<StepPlan, StepPlan> plan_two(Scheduler& scheduler) {
    const StepPlan first = plan_next(scheduler);
    return {first, plan_next(scheduler)};
}

}  // namespace deepinfer::testing
