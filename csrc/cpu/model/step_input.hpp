// The input of one forward pass, as the scheduler's plan holds it.
#pragma once

#include <cstdint>

namespace deepinfer::cpu {

// S sequences with T rows in all, packed; a row is one token of one sequence. Arrays belong to the caller.
struct StepInput {
    int64_t num_seqs = 0;
    int64_t num_rows = 0;
    int64_t num_lookback = 0;
    int64_t num_wanted = 0;
    bool keeps_draft_context = true;           // the rows leave the draft model its context, if there is one
    const int32_t* cu_seqlens_q = nullptr;     // [S+1] prefix sums of rows
    const int32_t* context_lens = nullptr;     // [S] tokens in the caches before this step
    const int32_t* state_slots = nullptr;      // [S]
    const int32_t* block_ids = nullptr;        // block tables, one behind the other
    const int32_t* cu_blocks = nullptr;        // [S+1] prefix sums of their lengths
    const int32_t* token_ids = nullptr;        // [T]
    const int32_t* lookback_ids = nullptr;     // [S, num_lookback] tokens before the first row, nearest first; -1: none
    const int32_t* window_starts = nullptr;    // [S] first position that windows may look at
    const int32_t* entry_starts = nullptr;     // [S] first position whose entries are to be written
    const int32_t* consumer_starts = nullptr;  // [S] first position that has a row in the consumer layers
    const int64_t* wanted_rows = nullptr;      // [num_wanted] rows whose final hidden state is wanted, ascending
};

}  // namespace deepinfer::cpu
