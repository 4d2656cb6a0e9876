#include "core/scheduler_config.hpp"

#include <limits>
#include <stdexcept>

#include "core/message.hpp"

namespace deepinfer {

namespace {

void require_between(const char* field, int64_t value, int64_t low, int64_t high) {
    if (value >= low && value <= high) return;
    throw std::invalid_argument(message(field, " is ", value, "; it must be ", low, "..", high));
}

}  // namespace

void SchedulerConfig::validate() const {
    constexpr int64_t kMax = std::numeric_limits<int32_t>::max();  // plans carry 32-bit numbers
    require_between("num_blocks", num_blocks, 1, kMax);
    require_between("block_size", block_size, 1, kMax);
    require_between("num_state_slots", num_state_slots, 1, kMax);
    require_between("max_num_seqs", max_num_seqs, 1, kMax);
    require_between("num_drafts", num_drafts, 0, 64);
    require_between("max_num_batched_tokens", max_num_batched_tokens, 1 + num_drafts, kMax);
    require_between("max_prefill_chunk", max_prefill_chunk, 1, kMax);
    require_between("max_model_len", max_model_len, 1, kMax);
    require_between("num_lookback", num_lookback, 0, 64);
    require_between("keep_tokens", keep_tokens, 0, kMax);
    require_between("replay_tokens", replay_tokens, 0, kMax);
    require_between("replay_multiple", replay_multiple, 1, kMax);
    require_between("draft_window", draft_window, 0, kMax);
}

}  // namespace deepinfer
