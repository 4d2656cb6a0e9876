// Scheduler::check and its parts: proving the invariants.
#include <stdexcept>

#include "core/message.hpp"
#include "core/scheduler.hpp"

namespace deepinfer {

namespace {

template <typename... Parts>
void require(bool holds, const Parts&... parts) {
    if (!holds) throw std::logic_error(message("broken invariant: ", parts...));
}

}  // namespace

void Scheduler::check() const {
    const std::lock_guard lock(mutex_);
    std::vector<const SequenceCache*> open_caches;
    for (const auto& [seq_id, seq] : sequences_) {
        require(seq_id == seq->id(), "sequence ", seq->id(), " is filed under ", seq_id);
        check_sequence(*seq);
        if (seq->cache().is_open()) open_caches.push_back(&seq->cache());
    }
    check_running();
    kv_.check(open_caches);
    require(static_cast<size_t>(waiting_.size()) + running_.size() == sequences_.size(), waiting_.size(), " wait and ",
            running_.size(), " run, but ", sequences_.size(), " are unfinished");
    require(open_caches.size() == running_.size(), open_caches.size(), " caches are open for ", running_.size(),
            " running sequences");
    require(!sequences_.empty() || kv_.is_idle(), "nothing is unfinished, but something is not free");
}

void Scheduler::check_sequence(const Sequence& seq) const {
    const bool waits = seq.status() == SequenceStatus::kWaiting;
    const int64_t num_blocks = static_cast<int64_t>(seq.cache().block_ids.size());
    require(seq.status() != SequenceStatus::kFinished, "sequence ", seq.id(), " has finished, but was kept");
    require(waits == waiting_.contains(seq.id()), "sequence ", seq.id(), " waits but is not queued, or the reverse");
    require(waits != seq.cache().is_open(), "sequence ", seq.id(), " waits with a cache, or runs without");
    require(seq.len() <= seq.max_len(), "sequence ", seq.id(), " has ", seq.len(), " tokens, more than ",
            seq.max_len());
    if (waits) {
        require(num_blocks == 0 && seq.num_computed() == 0, "sequence ", seq.id(), " waits with ", num_blocks,
                " blocks and ", seq.num_computed(), " computed tokens");
        return;
    }
    const int64_t num_needed = kv_.blocks_for(seq.len());
    if (seq.status() == SequenceStatus::kPrefilling) {
        require(seq.num_uncomputed() > 0, "sequence ", seq.id(), " is prefilling, but all is computed");
        require(num_blocks == num_needed, "prefilling sequence ", seq.id(), " holds ", num_blocks, " blocks, not ",
                num_needed);
    } else {
        require(seq.num_uncomputed() == 1, "decoding sequence ", seq.id(), " has ", seq.num_uncomputed(),
                " tokens not computed");
        require(num_blocks == num_needed || num_blocks == kv_.blocks_for(seq.num_computed()), "decoding sequence ",
                seq.id(), " holds ", num_blocks, " blocks for ", seq.len(), " tokens");
    }
}

void Scheduler::check_running() const {
    require(static_cast<int64_t>(running_.size()) <= config_.max_num_seqs, running_.size(),
            " sequences run, more than ", config_.max_num_seqs);
    int64_t previous = -1;
    for (const Sequence* seq : running_) {
        require(seq->admission() > previous, "running sequence ", seq->id(), " is out of admission order");
        previous = seq->admission();
        require(find(seq->id()) == seq, "running sequence ", seq->id(), " is not known");
        const bool is_planned = seq->step_in_flight() != Sequence::kNoStep;
        require(!is_planned || (in_flight_ && in_flight_->step_id == seq->step_in_flight()), "sequence ", seq->id(),
                " is in step ", seq->step_in_flight(), ", which is not in flight");
    }
}

}  // namespace deepinfer
