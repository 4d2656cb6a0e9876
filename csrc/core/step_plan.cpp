#include "core/step_plan.hpp"

#include <numeric>

namespace deepinfer {

void StepPlan::append(const Sequence& seq, int64_t num_rows, int64_t num_verified, int64_t draft_cap) {
    const auto tokens = seq.token_ids();
    const int64_t start = seq.num_computed();
    append_sequence(seq, draft_cap);
    remap.push_back(-1);
    samples.push_back(seq.samples_after(num_rows) ? 1 : 0);
    num_drafts.push_back(static_cast<int32_t>(num_verified));
    if (seq.samples_after(num_rows)) {
        fork_seq_ids.insert(fork_seq_ids.end(), seq.fork_ids().begin(), seq.fork_ids().end());
    }
    cu_forks.push_back(static_cast<int32_t>(fork_seq_ids.size()));
    output_indices.push_back(static_cast<int32_t>(seq.num_generated()));

    const auto rows = tokens.subspan(static_cast<size_t>(start), static_cast<size_t>(num_rows));
    const auto drafts = seq.drafts().ids().first(static_cast<size_t>(num_verified));
    token_ids.insert(token_ids.end(), rows.begin(), rows.end());
    token_ids.insert(token_ids.end(), drafts.begin(), drafts.end());
    append_rows(start);
    for (int64_t position = start - 1; position >= start - num_lookback; --position) {
        lookback_ids.push_back(position >= 0 ? tokens[position] : -1);
    }
}

void StepPlan::append_linked(const Sequence& seq, int64_t place, int64_t num_new, int64_t num_verified,
                             int64_t draft_cap) {
    append_sequence(seq, draft_cap);
    remap.push_back(static_cast<int32_t>(place));
    samples.push_back(1);
    num_drafts.push_back(static_cast<int32_t>(num_verified));
    cu_forks.push_back(cu_forks.back());
    output_indices.push_back(static_cast<int32_t>(seq.num_generated() + num_new));
    token_ids.resize(token_ids.size() + 1 + static_cast<size_t>(num_verified), 0);
    append_rows(seq.num_computed() + num_new);
    lookback_ids.resize(lookback_ids.size() + static_cast<size_t>(num_lookback), -1);
}

// What neither tokens nor the place in the text decide.
void StepPlan::append_sequence(const Sequence& seq, int64_t draft_cap) {
    const SequenceCache& cache = seq.cache();
    seq_ids.push_back(seq.id());
    prompt_lens.push_back(static_cast<int32_t>(seq.prompt_len()));
    window_starts.push_back(static_cast<int32_t>(seq.replay().num_skipped));
    entry_starts.push_back(static_cast<int32_t>(seq.replay().num_shared));
    consumer_starts.push_back(static_cast<int32_t>(seq.consumer_start()));
    draft_caps.push_back(static_cast<int32_t>(draft_cap));
    max_lens.push_back(static_cast<int32_t>(seq.max_len()));
    state_slots.push_back(cache.state_slot);
    block_ids.insert(block_ids.end(), cache.block_ids.begin(), cache.block_ids.end());
    cu_blocks.push_back(static_cast<int32_t>(block_ids.size()));
}

// Context and positions of the rows whose tokens were added last.
void StepPlan::append_rows(int64_t start) {
    context_lens.push_back(static_cast<int32_t>(start));
    num_draft_rows += num_drafts.back();
    positions.resize(token_ids.size());
    std::iota(positions.begin() + cu_seqlens_q.back(), positions.end(), static_cast<int32_t>(start));
    cu_seqlens_q.push_back(static_cast<int32_t>(token_ids.size()));
}

void StepPlan::append_copy(const CacheCopy& copy) {
    if (copy.has_slot()) slot_copies.insert(slot_copies.end(), {copy.src_slot, copy.dst_slot});
    if (copy.has_block()) block_copies.insert(block_copies.end(), {copy.src_block, copy.dst_block});
}

void StepPlan::reserve(size_t num_seqs) {
    seq_ids.reserve(num_seqs);
    samples.reserve(num_seqs);
    lookback_ids.reserve(num_seqs * static_cast<size_t>(num_lookback));
    for (auto* ends : {&cu_seqlens_q, &cu_blocks, &cu_forks}) ends->reserve(num_seqs + 1);
    for (auto* values :
         {&context_lens, &prompt_lens, &window_starts, &entry_starts, &consumer_starts, &state_slots, &output_indices,
          &num_drafts, &draft_caps, &max_lens, &remap, &token_ids, &positions, &block_ids}) {
        values->reserve(num_seqs);
    }
}

}  // namespace deepinfer
