// Running totals of a scheduler.
#pragma once

#include <cstdint>

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
};

}  // namespace deepinfer
