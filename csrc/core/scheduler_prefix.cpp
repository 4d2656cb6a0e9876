// The parts of Scheduler that deal in saved prefixes.
#include <algorithm>
#include <set>
#include <stdexcept>

#include "core/message.hpp"
#include "core/scheduler.hpp"

namespace deepinfer {

namespace {

// How many of the first num_blocks blocks of a sequence no prefix holds yet.
int64_t num_unsaved_blocks(const PrefixStore& prefixes, const Sequence& seq, int64_t num_blocks) {
    const std::vector<int32_t> held = prefixes.held_blocks();
    const std::set<int32_t> saved(held.begin(), held.end());
    const auto& ids = seq.cache().block_ids;
    return std::count_if(ids.begin(), ids.begin() + num_blocks, [&](int32_t id) { return !saved.contains(id); });
}

}  // namespace

int64_t Scheduler::save_prefix(int64_t seq_id) {
    const std::lock_guard lock(mutex_);
    const Sequence* seq = find(seq_id);
    if (seq != nullptr ? seq->num_computed() == 0 : !prefixes_.is_whole(seq_id)) {
        throw std::invalid_argument(
            message("nothing of sequence ", seq_id, " is in the caches: ",
                    seq != nullptr ? "it has not begun" : "it ended too long ago, and its blocks were used again"));
    }
    int64_t longest = 0;
    for (const auto& [id, other] : sequences_) {
        longest = std::max(longest, kv_.blocks_for(other->max_len() - 1 - num_shared_tokens(other->replay())));
    }
    const int64_t num_new = seq != nullptr ? num_unsaved_blocks(prefixes_, *seq, kv_.blocks_for(seq->num_computed()))
                                           : prefixes_.num_new_blocks(seq_id);
    if (num_new + longest > num_usable_blocks()) {
        throw std::invalid_argument(message("the prefix would take ", num_new, " of ", num_usable_blocks(),
                                            " cache blocks, but the longest unfinished sequence may need ", longest));
    }
    return seq != nullptr ? prefixes_.save(*seq) : prefixes_.save_remembered(seq_id);
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
