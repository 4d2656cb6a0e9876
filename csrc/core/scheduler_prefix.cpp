// The parts of Scheduler that deal in saved prefixes.
#include <algorithm>
#include <stdexcept>

#include "core/message.hpp"
#include "core/scheduler.hpp"

namespace deepinfer {

int64_t Scheduler::save_prefix(int64_t seq_id) {
    const std::lock_guard lock(mutex_);
    const Sequence* seq = find(seq_id);
    if (seq == nullptr ? !prefixes_.is_whole(seq_id) : seq->num_computed() == 0 || has_pending_copy(seq_id)) {
        throw std::invalid_argument(message("nothing of sequence ", seq_id, " is in the caches: it ",
                                            seq != nullptr
                                                ? "waits (to begin, or because it was preempted); save it "
                                                  "while it runs, or when it has ended"
                                                : "never began, was aborted or failed, or ended too long "
                                                  "ago, so that its blocks were used again; save it sooner"));
    }
    int64_t most = 0;
    for (const auto& [id, other] : sequences_) most = std::max(most, most_own_blocks(*other));
    const int64_t num_new =
        seq != nullptr ? prefixes_.num_new_blocks(*seq) : prefixes_.num_new_blocks_of_remembered(seq_id);
    if (num_new + most > num_usable_blocks()) {
        throw std::invalid_argument(message("the prefix would take ", num_new, " of ", num_usable_blocks(),
                                            " cache blocks, but the longest unfinished sequence may need ", most,
                                            "; close other prefixes, or let it end first"));
    }
    return seq != nullptr ? prefixes_.save(*seq) : prefixes_.save_remembered(seq_id);
}

bool Scheduler::is_in_caches(int64_t seq_id) const {
    const std::lock_guard lock(mutex_);
    return is_known(seq_id) || prefixes_.is_whole(seq_id);
}

int64_t Scheduler::num_saved_blocks() const {
    const std::lock_guard lock(mutex_);
    return prefixes_.num_held_blocks();
}

// The block to be filled by the copy does not hold the text yet.
bool Scheduler::has_pending_copy(int64_t seq_id) const {
    return std::any_of(pending_copies_.begin(), pending_copies_.end(),
                       [=](const PendingCopy& pending) { return pending.seq_id == seq_id; });
}

// Blocks of its own that a sequence needs to reach its end alone: all of a prompt, all but the last token of a text.
int64_t Scheduler::most_own_blocks(const Sequence& seq) const {
    const int64_t num_tokens = std::max(seq.prompt_len(), seq.max_len() - 1);
    return kv_.blocks_for(num_tokens - num_shared_tokens(seq.replay()));
}

bool Scheduler::close_prefix(int64_t prefix_id) {
    const std::lock_guard lock(mutex_);
    return prefixes_.close(prefix_id);
}

std::vector<int32_t> Scheduler::prefix_token_ids(int64_t prefix_id) const {
    const std::lock_guard lock(mutex_);
    if (!prefixes_.is_open(prefix_id)) throw std::invalid_argument(message("prefix ", prefix_id, " is not known"));
    return prefixes_.token_ids(prefix_id);
}

// The last token is always computed, since its row is sampled. Where a replay would begin at 0, nothing is gained.
Replay Scheduler::replay_of(const SequenceSpec& spec) const {
    if (!prefixes_.is_open(spec.prefix_id)) return {};
    const std::vector<int32_t>& saved = prefixes_.token_ids(spec.prefix_id);
    const auto begin = spec.prompt_token_ids.begin();
    const auto end = spec.prompt_token_ids.empty() ? begin : spec.prompt_token_ids.end() - 1;
    const int64_t num_shared = std::mismatch(begin, end, saved.begin(), saved.end()).first - begin;
    const int64_t start = std::max<int64_t>(num_shared - config_.replay_tokens, 0);
    const int64_t num_skipped = start / config_.replay_multiple * config_.replay_multiple;
    return num_skipped > 0 ? Replay{spec.prefix_id, num_shared, num_skipped} : Replay{};
}

// Tokens in full blocks of the prefix: opening a cache takes no free blocks for them.
int64_t Scheduler::num_shared_tokens(const Replay& replay) const {
    return replay.num_shared / config_.block_size * config_.block_size;
}

void Scheduler::open_cache(Sequence& seq) {
    const Replay& replay = seq.replay();
    if (replay.prefix_id < 0) return kv_.open(seq.cache(), seq.len());
    const auto copy = kv_.open_on(seq.cache(), seq.len(), prefixes_.block_ids(replay.prefix_id), replay.num_shared);
    if (copy) pending_copies_.push_back({seq.id(), *copy});
}

// The end of a sequence that has left the queues.
void Scheduler::forget(Sequence& seq) {
    kv_.release(seq.cache());
    prefixes_.drop_user(seq.replay().prefix_id);
    sequences_.erase(seq.id());
}

}  // namespace deepinfer
