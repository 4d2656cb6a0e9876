// Scheduler::schedule and its parts: choosing the rows of the next step.
#include <algorithm>
#include <stdexcept>

#include "core/message.hpp"
#include "core/scheduler.hpp"

namespace deepinfer {

std::shared_ptr<const StepPlan> Scheduler::schedule(std::optional<StepKind> kind) {
    const std::lock_guard lock(mutex_);
    steps_.require_room();
    steps_.drop_empty();
    const auto plan = std::make_shared<StepPlan>();
    plan->step_id = next_step_id_++;
    plan->kind = kind.value_or(decide_step_kind(vote_now()));
    plan->num_lookback = static_cast<int32_t>(config_.num_lookback);
    plan->rate_factors = draft_planner_.rate_factors();
    if (plan->kind == StepKind::kPrefill) {
        plan_prefill(*plan);
        plan->make_drafts = draft_planner_.drafts_after_prefill(num_decoding_after(*plan));
        plan->keeps_draft_context = config_.num_drafts > 0 && draft_planner_.keeps_context();
    }
    if (plan->kind == StepKind::kDecode) plan_decode(*plan);
    if (plan->seq_ids.empty()) {
        plan->kind = StepKind::kEmpty;
        if (!steps_.empty() || kind.has_value()) return plan;
        if (!sequences_.empty()) {
            throw std::logic_error(
                message(sequences_.size(), " sequences are unfinished, but none can be scheduled: ", waiting_.size(),
                        " wait, ", running_.size(), " run, ", kv_.num_free_blocks(), " blocks are free"));
        }
    }
    plan->make_drafts = plan->make_drafts && can_use_drafts(*plan);
    append_copies(*plan);
    if (!plan->is_linked()) count_step(*plan);
    steps_.push(plan);
    return plan;
}

StepVote Scheduler::vote() const {
    const std::lock_guard lock(mutex_);
    return vote_now();
}

StepVote Scheduler::vote_now() const {
    StepVote vote;
    vote.can_continue_prefill = std::any_of(running_.begin(), running_.end(), [](const Sequence* seq) {
        return seq->status() == SequenceStatus::kPrefilling;
    });
    vote.can_start_prefill = can_admit_next();
    vote.can_decode = std::any_of(running_.begin(), running_.end(), [](const Sequence* seq) {
        return seq->status() == SequenceStatus::kDecoding && seq->can_go_on();
    });
    return vote;
}

// A preempted sequence returns only when every running one has a spare block to grow into. Otherwise it would be
// preempted again at the next block boundary, and its recompute would be lost. Forks to come keep their places, but a
// sequence with nobody beside it need not have room for all of its own.
bool Scheduler::can_admit_next() const {
    if (waiting_.empty()) return false;
    const Sequence& next = waiting_.front();
    if (running_.empty()) return kv_.can_open(num_own_tokens(next), 0);
    const int64_t num_running = static_cast<int64_t>(running_.size());
    const int64_t num_kept = num_reserved_ + next.num_forks();
    const int64_t num_spare_blocks = num_kept + (next.was_preempted() ? num_running : 0);
    return num_running + num_kept < config_.max_num_seqs &&
           kv_.can_open(num_own_tokens(next), num_spare_blocks, num_kept);
}

// How many tokens a prefill step with `budget` tokens left takes of a sequence; 0: none, wait for the next step.
int64_t Scheduler::prefill_rows(const Sequence& seq, int64_t budget) const {
    const int64_t rest = seq.num_to_prefill();
    if (config_.enable_chunked_prefill) return std::min({rest, config_.max_prefill_chunk, budget});
    // Whole or not at all, but for a recompute that has grown beyond any step.
    if (rest <= config_.max_num_batched_tokens) return rest <= budget ? rest : 0;
    return budget;
}

void Scheduler::plan_prefill(StepPlan& plan) {
    int64_t budget = config_.max_num_batched_tokens;
    const auto take = [&](Sequence& seq, int64_t num_rows) {
        begin(plan, seq, num_rows);
        budget -= num_rows;
    };
    for (Sequence* seq : running_) {
        if (seq->status() != SequenceStatus::kPrefilling) continue;
        const int64_t num_rows = prefill_rows(*seq, budget);
        if (num_rows == 0) return;
        take(*seq, num_rows);
    }
    while (can_admit_next()) {
        const int64_t num_rows = prefill_rows(waiting_.front(), budget);
        if (num_rows == 0) return;
        take(admit_next(), num_rows);
    }
}

void Scheduler::plan_decode(StepPlan& plan) {
    std::vector<Sequence*> chosen = steps_.empty() ? choose_exact(plan) : choose_linked();
    for (Sequence* seq : chosen) seq->take_turn(next_turn_++);
    std::sort(chosen.begin(), chosen.end(), [](auto* a, auto* b) { return a->admission() < b->admission(); });
    if (!chosen.empty()) add_drafts(chosen, plan);
}

// Sequences of a decode step that nothing is in flight before; they have blocks for their tokens.
std::vector<Sequence*> Scheduler::choose_exact(StepPlan& plan) {
    const auto max_seqs = static_cast<size_t>(config_.max_decode_seqs());
    std::vector<Sequence*> chosen;
    chosen.reserve(std::min(max_seqs, running_.size()));
    for (Sequence* seq : decode_order()) {
        if (chosen.size() == max_seqs) break;
        if (seq->status() != SequenceStatus::kDecoding) continue;  // preempted for an earlier one of this loop
        if (grow_or_preempt(*seq, chosen, plan)) chosen.push_back(seq);
    }
    return chosen;
}

// Oldest admission first; when not all fit into a step, those whose turn was longest ago come first.
std::vector<Sequence*> Scheduler::decode_order() const {
    std::vector<Sequence*> order;
    order.reserve(running_.size());
    std::copy_if(running_.begin(), running_.end(), std::back_inserter(order),
                 [](const Sequence* seq) { return seq->status() == SequenceStatus::kDecoding && seq->can_go_on(); });
    if (static_cast<int64_t>(order.size()) > config_.max_decode_seqs()) {
        std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->last_turn() < b->last_turn(); });
    }
    return order;
}

// Makes room for all of a sequence's tokens at the cost of the most recently admitted ones; false: it was itself that.
bool Scheduler::grow_or_preempt(Sequence& seq, std::vector<Sequence*>& chosen, StepPlan& plan) {
    while (!kv_.try_grow(seq.cache(), seq.len())) {
        Sequence& victim = *running_.back();
        std::erase(chosen, &victim);
        preempt(victim, plan);
        if (&victim == &seq) return false;
    }
    return true;
}

Sequence& Scheduler::admit_next() {
    Sequence& seq = waiting_.front();
    waiting_.pop_front();
    open_cache(seq);
    seq.admit(next_admission_++);
    num_reserved_ += seq.num_forks();
    seq.take_turn(next_turn_++);
    running_.push_back(&seq);
    return seq;
}

void Scheduler::preempt(Sequence& seq, StepPlan& plan) {
    std::erase(running_, &seq);
    num_reserved_ -= seq.num_forks();
    drop_copy(seq.id());
    kv_.release(seq.cache());
    seq.preempt();
    waiting_.push_front(seq);
    plan.preempted_seq_ids.push_back(seq.id());
    ++stats_.num_preemptions;
}

void Scheduler::begin(StepPlan& plan, Sequence& seq, int64_t num_rows, int64_t num_drafts, int64_t draft_cap) {
    seq.begin_step(plan.step_id, plan.num_seqs());
    plan.append(seq, num_rows, num_drafts, draft_cap);
    if (plan.kind == StepKind::kPrefill) stats_.num_recomputed_tokens += seq.num_recomputed(num_rows);
}

// The copies that no step in flight makes.
void Scheduler::append_copies(StepPlan& plan) {
    for (PendingCopy& pending : pending_copies_) {
        if (pending.step_id != Sequence::kNoStep) continue;
        pending.step_id = plan.step_id;
        plan.append_copy(pending.copy);
    }
}

void Scheduler::count_step(const StepPlan& plan) {
    stats_.num_steps += plan.kind != StepKind::kEmpty;
    if (plan.kind == StepKind::kPrefill) {
        ++stats_.num_prefill_steps;
        stats_.num_prefill_tokens += plan.num_tokens();
    }
    if (plan.kind == StepKind::kDecode) {
        ++stats_.num_decode_steps;
        stats_.num_decode_tokens += plan.num_tokens();
    }
    if (estimator_ != nullptr) stats_.cost += estimator_->plan_cost(plan);
}

}  // namespace deepinfer
