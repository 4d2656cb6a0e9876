// Scheduler::update, discard and their parts: booking what a step computed.
#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/message.hpp"
#include "core/scheduler.hpp"

namespace deepinfer {

StepUpdate Scheduler::update(int64_t step_id, std::span<const int32_t> tokens, std::span<const int32_t> cu_tokens,
                             const NewDrafts& drafts) {
    const std::lock_guard lock(mutex_);
    const StepsInFlight::Plan step = steps_.require_oldest(step_id);
    const std::vector<Sequence*> members = members_of(*step);
    require_valid(*step, members, tokens, cu_tokens);
    require_valid(*step, drafts);
    StepsInFlight::Plan next = settle_next({tokens, cu_tokens, drafts});
    end_copies(step_id);
    StepUpdate update;
    for (size_t i = 0; i < members.size(); ++i) {
        if (members[i] == nullptr) continue;
        const auto begin = static_cast<size_t>(cu_tokens[i]);
        commit(*members[i], *step, i, tokens.subspan(begin, static_cast<size_t>(cu_tokens[i + 1]) - begin), update);
    }
    give_drafts(*step, members, drafts);
    steps_.pop_oldest();
    retire_finished(update);
    if (next != nullptr) settle(std::move(next));
    return update;
}

void Scheduler::discard(int64_t step_id) {
    const std::lock_guard lock(mutex_);
    const StepsInFlight::Plan step = steps_.require_newest(step_id);
    steps_.pop_newest();
    for (Sequence* seq : members_of(*step)) {
        if (seq == nullptr) continue;
        seq->cancel_step();
        kv_.shrink(seq->cache(), num_planned_tokens(*seq));
    }
    for (PendingCopy& pending : pending_copies_) {
        if (pending.step_id == step_id) pending.step_id = Sequence::kNoStep;
    }
}

// Sequence i of a step in flight; null when it was removed after planning, even if a new one has its id.
Sequence* Scheduler::find_in(const StepPlan& step, size_t i) const {
    Sequence* seq = find(step.seq_ids[i]);
    return seq != nullptr && seq->is_in(step.step_id) ? seq : nullptr;
}

std::vector<Sequence*> Scheduler::members_of(const StepPlan& step) const {
    std::vector<Sequence*> members(step.seq_ids.size());
    for (size_t i = 0; i < members.size(); ++i) members[i] = find_in(step, i);
    return members;
}

void Scheduler::require_valid(const StepPlan& step, std::span<Sequence* const> members, std::span<const int32_t> tokens,
                              std::span<const int32_t> cu_tokens) const {
    const auto num_seqs = step.seq_ids.size();
    if (cu_tokens.size() != num_seqs + 1) {
        throw std::invalid_argument(message("cu_tokens has ", cu_tokens.size(), " entries; the step's ", num_seqs,
                                            " sequences need ", num_seqs + 1));
    }
    if (cu_tokens.front() != 0 || cu_tokens.back() != static_cast<int64_t>(tokens.size())) {
        throw std::invalid_argument(message("cu_tokens goes from ", cu_tokens.front(), " to ", cu_tokens.back(),
                                            "; it must go from 0 to the number of tokens, ", tokens.size()));
    }
    const auto falls = std::is_sorted_until(cu_tokens.begin(), cu_tokens.end());
    if (falls != cu_tokens.end()) {
        throw std::invalid_argument(message("cu_tokens falls to ", *falls, " at entry ", falls - cu_tokens.begin()));
    }
    for (size_t i = 0; i < num_seqs; ++i) {
        if (members[i] == nullptr) continue;
        const int64_t least = step.num_samplers(i);
        const int64_t most = least + step.num_drafts[i];
        const int64_t num_given = cu_tokens[i + 1] - cu_tokens[i];
        if (num_given < least || num_given > most) {
            const std::string expected = least == most ? message(least) : message(least, " to ", most);
            throw std::invalid_argument(
                message("sequence ", step.seq_ids[i], " got ", num_given, " tokens; this step gives it ", expected));
        }
    }
    const auto negative = std::find_if(tokens.begin(), tokens.end(), [](int32_t id) { return id < 0; });
    if (negative != tokens.end()) {
        throw std::invalid_argument(
            message("tokens[", negative - tokens.begin(), "] is ", *negative, "; ids are >= 0"));
    }
}

// The step has made its copies; those of a later one are still to come.
void Scheduler::end_copies(int64_t step_id) {
    std::erase_if(pending_copies_, [&](const PendingCopy& pending) {
        if (pending.step_id != step_id) return false;
        kv_.end_copy(pending.copy);
        return true;
    });
}

// seq: sequence i of the step.
void Scheduler::commit(Sequence& seq, const StepPlan& step, size_t i, std::span<const int32_t> tokens,
                       StepUpdate& update) {
    if (step.samples[i] != 0 && seq.status() == SequenceStatus::kDecoding) {
        commit_decode(seq, tokens, step.num_drafts[i], update);
    } else if (step.samples[i] != 0) {
        const auto fork_ids = step.forks_of(i);
        const size_t num_own = tokens.size() - fork_ids.size();
        report(seq, tokens.first(num_own), update);
        make_forks(seq, fork_ids, tokens.subspan(num_own), update);
    } else if (seq.commit_rows(step.num_text_rows(i)) == FinishReason::kLength) {
        update.append(seq.id(), {}, FinishReason::kLength);
        ++stats_.num_finished_length;
        end_forks(seq, update);
    }
}

// Gives a sequence its new tokens; returns how many it took.
int64_t Scheduler::report(Sequence& seq, std::span<const int32_t> tokens, StepUpdate& update) {
    FinishReason reason;
    const int64_t num_taken = seq.commit_tokens(tokens, reason);
    update.append(seq.id(), tokens.first(static_cast<size_t>(num_taken)), reason);
    stats_.num_generated_tokens += num_taken;
    stats_.num_finished_stop += reason == FinishReason::kStop;
    stats_.num_finished_length += reason == FinishReason::kLength;
    return num_taken;
}

// Each fork gets its first token and then a place, if it goes on and there is one. The parent may have ended already;
// its cache is still there.
void Scheduler::make_forks(Sequence& parent, std::span<const int64_t> fork_ids, std::span<const int32_t> tokens,
                           StepUpdate& update) {
    std::vector<Sequence*> crowded;
    for (size_t i = 0; i < fork_ids.size(); ++i) {
        if (find_parent(fork_ids[i]) != &parent) continue;  // it was dropped during the step
        drop_fork(fork_ids[i]);
        auto owned = std::make_unique<Sequence>(parent, fork_ids[i]);
        Sequence& fork = *owned;
        sequences_.emplace(fork.id(), std::move(owned));
        prefixes_.add_user(fork.replay().prefix_id);
        report(fork, tokens.subspan(i, 1), update);
        if (fork.status() == SequenceStatus::kDecoding && !place_fork(parent, fork)) crowded.push_back(&fork);
    }
    for (auto fork = crowded.rbegin(); fork != crowded.rend(); ++fork) {
        (*fork)->preempt();
        waiting_.push_front(**fork);
    }
}

// The forks of a prompt that yields no token end like it.
void Scheduler::end_forks(Sequence& parent, StepUpdate& update) {
    for (const int64_t fork_id : parent.fork_ids()) update.append(fork_id, {}, FinishReason::kLength);
    stats_.num_finished_length += parent.num_forks();
    drop_forks(parent);
}

bool Scheduler::place_fork(const Sequence& parent, Sequence& fork) {
    if (static_cast<int64_t>(running_.size()) >= config_.max_num_seqs) return false;
    const std::optional<CacheCopy> copy = kv_.try_fork(parent.cache(), parent.prompt_len(), fork.cache());
    if (!copy) return false;
    pending_copies_.push_back({fork.id(), *copy});
    fork.admit(next_admission_++);
    fork.take_turn(next_turn_++);
    running_.push_back(&fork);
    ++stats_.num_forked;
    return true;
}

// Frees and forgets the sequences that the update reports as finished, but for what `finish` may have to take back.
void Scheduler::retire_finished(const StepUpdate& update) {
    ended_.clear();
    std::erase_if(running_, [](const Sequence* seq) { return seq->status() == SequenceStatus::kFinished; });
    for (size_t i = 0; i < update.seq_ids.size(); ++i) {
        if (update.finish_reasons[i] == FinishReason::kRunning) continue;
        Sequence* seq = find(update.seq_ids[i]);
        if (seq == nullptr) continue;  // a fork that never began
        ended_[seq->id()] = {seq->num_generated(), seq->drafts().outcome(), update.finish_reasons[i]};
        prefixes_.remember(*seq, seq->num_computed());
        forget(*seq);
    }
}

}  // namespace deepinfer
