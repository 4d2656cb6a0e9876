#include "core/step_plan.hpp"

#include <numeric>

namespace deepinfer {

void StepPlan::append(const Sequence& seq, int64_t num_rows, int64_t num_verified, int64_t draft_cap) {
    const auto tokens = seq.token_ids();
    const int64_t start = seq.num_computed();
    const SequenceCache& cache = seq.cache();

    seq_ids.push_back(seq.id());
    context_lens.push_back(static_cast<int32_t>(start));
    prompt_lens.push_back(static_cast<int32_t>(seq.prompt_len()));
    window_starts.push_back(static_cast<int32_t>(seq.replay().num_skipped));
    entry_starts.push_back(static_cast<int32_t>(seq.replay().num_shared));
    consumer_starts.push_back(static_cast<int32_t>(seq.consumer_start()));
    state_slots.push_back(cache.state_slot);
    samples.push_back(seq.samples_after(num_rows) ? 1 : 0);
    output_indices.push_back(static_cast<int32_t>(seq.num_generated()));
    num_drafts.push_back(static_cast<int32_t>(num_verified));
    draft_caps.push_back(static_cast<int32_t>(draft_cap));
    max_lens.push_back(static_cast<int32_t>(seq.max_len()));
    remap.push_back(-1);
    num_draft_rows += static_cast<int32_t>(num_verified);

    if (seq.samples_after(num_rows)) {
        fork_seq_ids.insert(fork_seq_ids.end(), seq.fork_ids().begin(), seq.fork_ids().end());
    }
    cu_forks.push_back(static_cast<int32_t>(fork_seq_ids.size()));

    block_ids.insert(block_ids.end(), cache.block_ids.begin(), cache.block_ids.end());
    cu_blocks.push_back(static_cast<int32_t>(block_ids.size()));

    const auto rows = tokens.subspan(static_cast<size_t>(start), static_cast<size_t>(num_rows));
    const auto drafts = seq.drafts().ids().first(static_cast<size_t>(num_verified));
    token_ids.insert(token_ids.end(), rows.begin(), rows.end());
    token_ids.insert(token_ids.end(), drafts.begin(), drafts.end());
    positions.resize(token_ids.size());
    std::iota(positions.end() - num_rows - num_verified, positions.end(), static_cast<int32_t>(start));
    cu_seqlens_q.push_back(static_cast<int32_t>(token_ids.size()));

    for (int64_t position = start - 1; position >= start - num_lookback; --position) {
        lookback_ids.push_back(position >= 0 ? tokens[position] : -1);
    }
}

void StepPlan::append_copy(const CacheCopy& copy) {
    if (copy.has_slot()) slot_copies.insert(slot_copies.end(), {copy.src_slot, copy.dst_slot});
    if (copy.has_block()) block_copies.insert(block_copies.end(), {copy.src_block, copy.dst_block});
}

}  // namespace deepinfer
