#include "core/scheduler.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "core/message.hpp"

namespace deepinfer {

namespace {

const SchedulerConfig& validated(const SchedulerConfig& config) {
    config.validate();
    return config;
}

void require_token_ids(const std::vector<int32_t>& token_ids, const char* name, int64_t seq_id) {
    const auto wrong = std::find_if(token_ids.begin(), token_ids.end(), [](int32_t id) { return id < 0; });
    if (wrong == token_ids.end()) return;
    throw std::invalid_argument(message("sequence ", seq_id, ": ", name, "[", wrong - token_ids.begin(), "] is ",
                                        *wrong, "; token ids must be >= 0"));
}

void require_kept(int64_t seq_id, int64_t keep_tokens, int64_t num_generated) {
    if (keep_tokens >= 0 && keep_tokens <= num_generated) return;
    throw std::invalid_argument(message("sequence ", seq_id, ": keep_tokens is ", keep_tokens, ", but ", num_generated,
                                        " tokens were generated"));
}

template <typename IsKnown>
void require_fork_ids(const SequenceSpec& spec, IsKnown is_known) {
    std::vector<int64_t> ids = spec.fork_seq_ids;
    ids.push_back(spec.seq_id);
    std::sort(ids.begin(), ids.end());
    const auto twice = std::adjacent_find(ids.begin(), ids.end());
    if (twice != ids.end()) {
        throw std::invalid_argument(message("sequence ", spec.seq_id, ": fork_seq_ids: ", *twice, " is there twice"));
    }
    for (const int64_t id : spec.fork_seq_ids) {
        if (id >= 0 && !is_known(id)) continue;
        throw std::invalid_argument(message("sequence ", spec.seq_id, ": fork_seq_ids has ", id, ", which is ",
                                            id < 0 ? "below 0" : "in use by an unfinished sequence"));
    }
}

}  // namespace

Scheduler::Scheduler(const SchedulerConfig& config)
    : config_(validated(config)),
      kv_(static_cast<int32_t>(config.num_blocks), static_cast<int32_t>(config.block_size),
          static_cast<int32_t>(config.num_state_slots)),
      draft_planner_(config),
      calibration_(config.num_drafts) {
    stats_.verified_at.resize(static_cast<size_t>(config.num_drafts));
    stats_.accepted_at.resize(static_cast<size_t>(config.num_drafts));
}

void Scheduler::add(SequenceSpec spec) {
    const std::lock_guard lock(mutex_);
    const Replay replay = replay_of(spec);
    require_valid(spec, replay);
    const int64_t max_len = longest_len(spec, replay);
    const int64_t seq_id = spec.seq_id;
    ended_.erase(seq_id);  // the id has a new owner
    for (const int64_t fork_id : spec.fork_seq_ids) ended_.erase(fork_id);
    auto seq = std::make_unique<Sequence>(std::move(spec), max_len, config_.keep_tokens);
    seq->set_replay(replay);
    prefixes_.add_user(replay.prefix_id);
    for (const int64_t fork_id : seq->fork_ids()) fork_parents_.emplace(fork_id, seq_id);
    stats_.num_added += 1 + seq->num_forks();
    waiting_.push_back(*seq);
    sequences_.emplace(seq_id, std::move(seq));
}

bool Scheduler::abort(int64_t seq_id) {
    const std::lock_guard lock(mutex_);
    if (drop_fork(seq_id)) {
        ++stats_.num_aborted;
        return true;
    }
    Sequence* seq = find(seq_id);
    if (seq == nullptr) return false;
    stats_.num_aborted += 1 + seq->num_forks();
    remove(*seq);
    return true;
}

bool Scheduler::finish(int64_t seq_id, int64_t keep_tokens) {
    const std::lock_guard lock(mutex_);
    Sequence* seq = find(seq_id);
    if (seq == nullptr && !is_known(seq_id)) {
        finish_ended(seq_id, keep_tokens);
        return false;
    }
    const int64_t num_generated = seq == nullptr ? 0 : seq->num_generated();
    require_kept(seq_id, keep_tokens, num_generated);
    stats_.num_finished_external += 1 + (seq == nullptr ? 0 : seq->num_forks());
    if (seq == nullptr) {
        drop_fork(seq_id);
    } else {
        cut_counts(num_generated - keep_tokens, seq->drafts().outcome());
        if (!has_pending_copy(seq_id)) {
            prefixes_.remember(*seq, std::min(seq->num_computed(), seq->prompt_len() + keep_tokens));
        }
        remove(*seq);
    }
    return true;
}

// The scheduler's own rule came first, but further back in the text: the end from outside is the one that counts.
void Scheduler::finish_ended(int64_t seq_id, int64_t keep_tokens) {
    const auto found = ended_.find(seq_id);
    if (found == ended_.end()) return;
    const EndedSequence ended = found->second;
    require_kept(seq_id, keep_tokens, ended.num_generated);
    ended_.erase(found);
    cut_counts(ended.num_generated - keep_tokens, ended.outcome);
    stats_.num_finished_stop -= ended.reason == FinishReason::kStop;
    stats_.num_finished_length -= ended.reason == FinishReason::kLength;
    ++stats_.num_finished_external;
}

std::vector<int64_t> Scheduler::steps_in_flight() const {
    const std::lock_guard lock(mutex_);
    return steps_.ids();
}

bool Scheduler::has_unfinished() const {
    const std::lock_guard lock(mutex_);
    return !sequences_.empty();
}

int64_t Scheduler::num_waiting() const {
    const std::lock_guard lock(mutex_);
    return waiting_.size();
}

int64_t Scheduler::num_running() const {
    const std::lock_guard lock(mutex_);
    return static_cast<int64_t>(running_.size());
}

int64_t Scheduler::num_free_blocks() const {
    const std::lock_guard lock(mutex_);
    return kv_.num_free_blocks();
}

int64_t Scheduler::num_free_state_slots() const {
    const std::lock_guard lock(mutex_);
    return kv_.num_free_state_slots();
}

void Scheduler::set_estimator(std::shared_ptr<const StepEstimator> estimator) {
    const std::lock_guard lock(mutex_);
    estimator_ = std::move(estimator);
}

SchedulerStats Scheduler::stats() const {
    const std::lock_guard lock(mutex_);
    return stats_;
}

std::vector<int32_t> Scheduler::token_ids(int64_t seq_id) const {
    const std::lock_guard lock(mutex_);
    const Sequence* seq = fork_parents_.contains(seq_id) ? find_parent(seq_id) : find(seq_id);
    if (seq == nullptr) throw std::invalid_argument(message("sequence ", seq_id, " is not known or has finished"));
    return {seq->token_ids().begin(), seq->token_ids().end()};
}

void Scheduler::require_valid(const SequenceSpec& spec, const Replay& replay) const {
    const int64_t prompt_len = static_cast<int64_t>(spec.prompt_token_ids.size());
    const auto refuse = [&spec](const std::string& reason) {
        throw std::invalid_argument(message("sequence ", spec.seq_id, ": ", reason));
    };
    if (spec.seq_id < 0) refuse("the id must be >= 0");
    if (is_known(spec.seq_id)) refuse("the id is in use by an unfinished sequence");
    require_fork_ids(spec, [this](int64_t id) { return is_known(id); });
    if (prompt_len == 0) refuse("the prompt is empty; at least one token is needed");
    if (spec.max_tokens < 0) refuse(message("max_tokens is ", spec.max_tokens, "; it must be >= 0"));
    if (spec.min_tokens < 0) refuse(message("min_tokens is ", spec.min_tokens, "; it must be >= 0"));
    if (prompt_len > config_.max_model_len) {
        refuse(message("the prompt has ", prompt_len, " tokens, max_model_len is ", config_.max_model_len));
    }
    if (spec.prefix_id >= 0 && !prefixes_.is_open(spec.prefix_id)) {
        refuse(message("prefix ", spec.prefix_id, " is not known, or was closed"));
    }
    const int64_t num_needed = kv_.blocks_for(prompt_len - num_shared_tokens(replay));
    if (num_needed > num_usable_blocks()) {
        const int64_t num_held = prefixes_.num_held_blocks();
        const std::string held = num_held > 0 ? message("; saved prefixes hold ", num_held, " blocks: close some") : "";
        refuse(message("the prompt has ", prompt_len, " tokens and needs ", num_needed,
                       " cache blocks; the whole cache has ", config_.num_blocks, " blocks of ", config_.block_size,
                       " tokens, a capacity of ", config_.capacity_tokens(), " tokens", held));
    }
    if (!config_.enable_chunked_prefill && prompt_len > config_.max_num_batched_tokens) {
        refuse(message("the prompt has ", prompt_len, " tokens, max_num_batched_tokens is ",
                       config_.max_num_batched_tokens, " and chunked prefill is off"));
    }
    require_token_ids(spec.prompt_token_ids, "prompt_token_ids", spec.seq_id);
    require_token_ids(spec.stop_token_ids, "stop_token_ids", spec.seq_id);
}

int64_t Scheduler::longest_len(const SequenceSpec& spec, const Replay& replay) const {
    const int64_t prompt_len = static_cast<int64_t>(spec.prompt_token_ids.size());
    const int64_t num_tokens = std::min(spec.max_tokens, config_.max_model_len - prompt_len);
    // The last token of a text is never fed, so a text may have one token more than the cache.
    return std::min(prompt_len + num_tokens, num_shared_tokens(replay) + num_usable_blocks() * config_.block_size + 1);
}

Sequence* Scheduler::find(int64_t seq_id) const {
    const auto found = sequences_.find(seq_id);
    return found == sequences_.end() ? nullptr : found->second.get();
}

Sequence* Scheduler::find_parent(int64_t fork_id) const {
    const auto found = fork_parents_.find(fork_id);
    return found == fork_parents_.end() ? nullptr : find(found->second);
}

bool Scheduler::drop_fork(int64_t fork_id) {
    Sequence* parent = find_parent(fork_id);
    if (parent == nullptr) return false;
    if (parent->status() != SequenceStatus::kWaiting) --num_reserved_;
    parent->drop_fork(fork_id);
    fork_parents_.erase(fork_id);
    return true;
}

void Scheduler::drop_forks(Sequence& seq) {
    while (seq.num_forks() > 0) drop_fork(seq.fork_ids().back());
}

void Scheduler::drop_copy(int64_t seq_id) {
    std::erase_if(pending_copies_, [&](const PendingCopy& pending) {
        if (pending.seq_id != seq_id) return false;
        kv_.end_copy(pending.copy);
        return true;
    });
}

// The one way out for a single sequence. A step in flight may still write to what is freed here: that does no harm,
// since the next owner's first step is computed after it.
void Scheduler::remove(Sequence& seq) {
    drop_forks(seq);
    drop_copy(seq.id());
    if (!waiting_.remove(seq.id())) std::erase(running_, &seq);
    forget(seq);
}

}  // namespace deepinfer
