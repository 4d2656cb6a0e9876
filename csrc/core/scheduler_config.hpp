// Sizes and limits of a scheduler.
#pragma once

#include <cstdint>

namespace deepinfer {

struct SchedulerConfig {
    int64_t num_blocks = 0;              // usable cache blocks
    int64_t block_size = 0;              // tokens per block
    int64_t num_state_slots = 0;         // sequences that can hold rings and compressor state
    int64_t max_num_seqs = 0;            // sequences admitted at a time
    int64_t max_num_batched_tokens = 0;  // tokens in a step
    int64_t max_prefill_chunk = 0;       // tokens of one sequence in a prefill step; unused without chunking
    int64_t max_model_len = 0;           // tokens of a sequence, prompt included
    int64_t num_lookback = 0;            // token ids wanted before a sequence's first row
    bool enable_chunked_prefill = true;  // false: a prompt is never cut
    int64_t num_drafts = 0;              // most draft tokens of a sequence in a decode step
    bool varlen = false;                 // how many of them are verified follows from cost curves, once there are some
    int64_t keep_tokens = 0;             // prompt tokens that have rows in the consumer layers; 0: all of them
    int64_t replay_tokens = 0;           // tokens before the end of a saved prefix that are computed again, at least
    int64_t replay_multiple = 1;         // positions at which such a replay may begin: its multiples
    int64_t draft_window = 0;            // newest tokens of a sequence that a draft pass looks at

    int64_t capacity_tokens() const { return num_blocks * block_size; }
    // Most sequences in a decode step: drafts are given up before a sequence is left out.
    int64_t max_decode_seqs() const { return max_num_batched_tokens; }

    // Most tokens that context and rows of a plan come to. A linked plan takes all drafts in flight for accepted and
    // all of its own for usable; what stands behind the longest text in it is gone when the plan is exact.
    int64_t runtime_max_model_len() const { return max_model_len + (num_drafts > 0 ? num_drafts - 1 : 0); }

    // Throws std::invalid_argument that names the first wrong field, its value and what is expected.
    void validate() const;
};

}  // namespace deepinfer
