// Running totals of a scheduler.
#pragma once

#include <cstdint>
#include <vector>

#include "core/step_cost.hpp"

namespace deepinfer {

struct SchedulerStats {
    int64_t num_added = 0;   // forks included
    int64_t num_forked = 0;  // forks that began with their parent's cache instead of computing the prompt again
    int64_t num_finished_stop = 0;
    int64_t num_finished_length = 0;
    int64_t num_finished_external = 0;  // ended by Scheduler::finish
    int64_t num_aborted = 0;
    int64_t num_preemptions = 0;
    int64_t num_steps = 0;  // scheduled steps that were not empty
    int64_t num_prefill_steps = 0;
    int64_t num_decode_steps = 0;
    int64_t num_prefill_tokens = 0;     // rows of prefill steps, recomputed ones included
    int64_t num_recomputed_tokens = 0;  // rows that had been computed before a preemption
    int64_t num_decode_tokens = 0;      // rows of decode steps
    int64_t num_generated_tokens = 0;   // tokens handed out, less those that finish dropped

    // Drafts. A verify step is one sequence in one decode step with at least one draft; steps of sequences that ended
    // from outside during them are not counted.
    int64_t num_verify_steps = 0;
    int64_t num_verify_tokens = 0;     // tokens that these gave; not what a stop or finish cut off
    int64_t num_drafts_verified = 0;   // drafts in these
    int64_t num_drafts_accepted = 0;   // drafts that became tokens; not what a stop cut off
    std::vector<int64_t> verified_at;  // [num_drafts] num_drafts_verified by position
    std::vector<int64_t> accepted_at;  // [num_drafts] num_drafts_accepted by position
    int64_t num_undrafted_steps = 0;   // decode steps without a draft pass behind them, since drafts did not pay
    int64_t num_draft_probes = 0;      // drafts tried although they did not pay

    StepCost cost;  // of all scheduled steps, where an estimator is set
};

}  // namespace deepinfer
