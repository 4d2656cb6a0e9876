// A small engine's sizes, and one step of it over the fake worker with every invariant checked.
#pragma once

#include "core/scheduler.hpp"
#include "fake_worker.hpp"

namespace deepinfer::testing {

inline SchedulerConfig small_config() {
    return {.num_blocks = 8,
            .block_size = 4,
            .num_state_slots = 4,
            .max_num_seqs = 4,
            .max_num_batched_tokens = 16,
            .max_prefill_chunk = 16,
            .max_model_len = 64};
}

struct Step {
    StepPlan plan;
    StepUpdate update;
};

inline Step run_step(Scheduler& scheduler, FakeWorker& worker) {
    Step step{*scheduler.schedule(), {}};
    const FakeWorker::Result result = worker.execute(step.plan);
    scheduler.check();
    step.update = scheduler.update(step.plan.step_id, result.tokens, result.cu_tokens);
    scheduler.check();
    return step;
}

}  // namespace deepinfer::testing
