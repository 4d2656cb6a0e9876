// Scheduler::check and its parts: proving the invariants.
#include <algorithm>
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
    check_steps();
    check_forks();
    check_copies();
    std::vector<CacheCopy> copies;
    for (const PendingCopy& pending : pending_copies_) copies.push_back(pending.copy);
    kv_.check(open_caches, copies, prefixes_.held_blocks());
    const auto num_users = std::count_if(sequences_.begin(), sequences_.end(),
                                         [](const auto& item) { return item.second->replay().prefix_id >= 0; });
    require(num_users == prefixes_.num_users(), num_users, " sequences begin on prefixes that count ",
            prefixes_.num_users());
    require(static_cast<size_t>(waiting_.size()) + running_.size() == sequences_.size(), waiting_.size(), " wait and ",
            running_.size(), " run, but ", sequences_.size(), " are unfinished");
    require(open_caches.size() == running_.size(), open_caches.size(), " caches are open for ", running_.size(),
            " running sequences");
    require(!sequences_.empty() || kv_.is_idle(prefixes_.num_held_blocks()),
            "nothing is unfinished, but something is not free");
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
        require(seq.drafts().size() == 0, "sequence ", seq.id(), " waits with drafts");
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
        check_decoding(seq);
    }
}

void Scheduler::check_decoding(const Sequence& seq) const {
    const auto num_blocks = static_cast<int64_t>(seq.cache().block_ids.size());
    const int64_t num_needed = kv_.blocks_for(num_planned_tokens(seq));
    require(seq.num_uncomputed() == 1, "decoding sequence ", seq.id(), " has ", seq.num_uncomputed(),
            " tokens not computed");
    const bool is_planned = seq.num_steps_in_flight() > 0;
    require(num_blocks <= num_needed && num_blocks >= (is_planned ? num_needed : kv_.blocks_for(seq.num_computed())),
            "decoding sequence ", seq.id(), " holds ", num_blocks, " blocks for ", seq.len(), " tokens; with the ",
            seq.num_steps_in_flight(), " steps in flight it needs ", num_needed);
    require(seq.drafts().size() <= config_.num_drafts, "sequence ", seq.id(), " has ", seq.drafts().size(), " drafts");
}

// What is planned agrees with what is known of the sequences that are still there.
void Scheduler::check_steps() const {
    if (steps_.empty()) return;
    const StepPlan& oldest = steps_.oldest();
    require(!oldest.is_linked(), "step ", oldest.step_id, " goes on from step ", oldest.previous_step_id,
            ", which is booked");
    for (size_t i = 0; i < oldest.seq_ids.size(); ++i) {
        const Sequence* seq = find_in(oldest, i);
        if (seq == nullptr) continue;
        require(oldest.context_lens[i] == seq->num_computed() && oldest.output_indices[i] == seq->num_generated(),
                "step ", oldest.step_id, " goes on behind ", oldest.context_lens[i], " tokens of sequence ", seq->id(),
                ", of which ", seq->num_computed(), " are computed");
    }
    if (!steps_.has_two()) return;
    const StepPlan& newest = steps_.newest();
    require(oldest.kind == StepKind::kDecode, "step ", newest.step_id, " was planned over step ", oldest.step_id,
            ", which is no decode step");
    for (size_t i = 0; i < newest.seq_ids.size(); ++i) {
        const Sequence* seq = find_in(newest, i);
        if (seq == nullptr) continue;
        require(newest.remap[i] == seq->place_in(oldest.step_id), "step ", newest.step_id, " takes sequence ",
                seq->id(), " for number ", newest.remap[i], " of step ", oldest.step_id, "; it is number ",
                seq->place_in(oldest.step_id));
    }
}

void Scheduler::check_forks() const {
    size_t num_forks = 0;
    int64_t num_reserved = 0;
    for (const auto& [seq_id, seq] : sequences_) {
        num_forks += seq->fork_ids().size();
        if (seq->status() != SequenceStatus::kWaiting) num_reserved += seq->num_forks();
        require(seq->num_forks() == 0 || seq->num_generated() == 0, "sequence ", seq_id,
                " has tokens, but no forks yet");
        for (const int64_t fork_id : seq->fork_ids()) {
            require(find_parent(fork_id) == seq.get(), "fork ", fork_id, " does not know sequence ", seq_id);
            require(find(fork_id) == nullptr, "fork ", fork_id, " of sequence ", seq_id, " is there already");
        }
    }
    require(num_forks == fork_parents_.size(), fork_parents_.size(), " forks are to come, but ", num_forks,
            " are listed");
    require(num_reserved == num_reserved_, num_reserved_, " places are reserved for ", num_reserved, " forks");
}

void Scheduler::check_copies() const {
    for (const auto& [seq_id, copy, step_id] : pending_copies_) {
        const Sequence* seq = find(seq_id);
        require(seq != nullptr && (!copy.has_slot() || seq->cache().state_slot == copy.dst_slot), "the copy to slot ",
                copy.dst_slot, " is not for sequence ", seq_id);
        const int64_t num_shared = copy.has_slot() ? seq->prompt_len() : seq->replay().num_shared;
        const auto cut_block = static_cast<size_t>(num_shared / config_.block_size);
        require(!copy.has_block() || seq->cache().block_ids.at(cut_block) == copy.dst_block, "the copy to block ",
                copy.dst_block, " is not for sequence ", seq_id);
        require(step_id == Sequence::kNoStep || steps_.find(step_id) != nullptr, "step ", step_id,
                " makes a copy for sequence ", seq_id, ", but is not in flight");
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
        for (int64_t i = 0; i < seq->num_steps_in_flight(); ++i) {
            const int64_t step_id = seq->step_in_flight(i);
            const StepPlan* step = steps_.find(step_id);
            require(step != nullptr, "sequence ", seq->id(), " is in step ", step_id, ", which is not in flight");
            require(step->seq_ids.at(static_cast<size_t>(seq->place_in(step_id))) == seq->id(), "sequence ", seq->id(),
                    " has the place of another one in step ", step_id);
        }
    }
}

}  // namespace deepinfer
