// The parts of Scheduler that plan a decode step over another one in flight, and settle it.
#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>

#include "core/message.hpp"
#include "core/resolve_plan.hpp"
#include "core/scheduler.hpp"

namespace deepinfer {

namespace {

// Tokens for which a step needs blocks that feeds the last of at most most_len tokens, and up to num_drafts drafts
// behind them. The last token of a whole text may be fed for nothing, but no draft stands behind the last but one.
int64_t most_fed(int64_t most_len, int64_t num_drafts, int64_t max_len) {
    return std::max(most_len, std::min(most_len + num_drafts, max_len - 1));
}

}  // namespace

std::shared_ptr<const StepPlan> Scheduler::settled(int64_t step_id) const {
    const std::lock_guard lock(mutex_);
    StepsInFlight::Plan step = steps_.require(step_id);
    if (!step->is_linked()) return step;
    throw std::logic_error(message("step ", step_id, " is not settled: book step ", step->previous_step_id, " first"));
}

// Tokens that a sequence gets at most from the step in flight, while another one is planned.
int64_t Scheduler::most_new_tokens(const Sequence& seq) const {
    if (seq.num_steps_in_flight() == 0) return 0;
    const StepPlan& step = steps_.oldest();
    return 1 + step.num_drafts[static_cast<size_t>(seq.place_in(step.step_id))];
}

// Tokens for which the next step needs blocks if it verifies up to num_drafts drafts.
int64_t Scheduler::len_with_drafts(const Sequence& seq, int64_t num_drafts) const {
    return most_fed(most_len(seq), num_drafts, seq.max_len());
}

// Tokens that a running sequence needs blocks for at present: those of its text, and what its steps in flight feed.
int64_t Scheduler::num_planned_tokens(const Sequence& seq) const {
    const int64_t num_steps = seq.num_steps_in_flight();
    if (num_steps == 0 || seq.status() != SequenceStatus::kDecoding) return seq.len();
    const StepPlan& step = *steps_.find(seq.step_in_flight(num_steps - 1));
    const auto place = static_cast<size_t>(seq.place_in(step.step_id));
    if (!step.is_linked() || step.remap[place] < 0) return seq.len() + step.num_drafts[place];
    return most_fed(step.context_lens[place] + 1, step.draft_caps[place], seq.max_len());
}

// Sequences of a decode step over the one in flight, with blocks for the longest texts that may come of that; none when
// these are not free.
std::vector<Sequence*> Scheduler::choose_linked() {
    std::vector<Sequence*> chosen = decode_order();
    chosen.resize(std::min(chosen.size(), static_cast<size_t>(config_.max_decode_seqs())));
    int64_t num_missing = 0;
    for (const Sequence* seq : chosen) {
        const auto num_held = static_cast<int64_t>(seq->cache().block_ids.size());
        num_missing += std::max<int64_t>(kv_.blocks_for(most_len(*seq)) - num_held, 0);
    }
    if (num_missing > kv_.num_free_blocks()) return {};
    for (Sequence* seq : chosen) kv_.try_grow(seq->cache(), most_len(*seq));
    return chosen;
}

void Scheduler::begin_linked(StepPlan& plan, Sequence& seq, int64_t num_drafts, int64_t draft_cap) {
    const StepPlan& previous = steps_.oldest();
    plan.previous_step_id = previous.step_id;
    plan.append_linked(seq, seq.place_in(previous.step_id), most_new_tokens(seq), num_drafts, draft_cap);
    seq.begin_step(plan.step_id, plan.num_seqs() - 1);
}

// What the step behind the oldest becomes with this outcome; null when there is none, or nothing open in it.
StepsInFlight::Plan Scheduler::settle_next(const StepOutcome& outcome) const {
    if (!steps_.has_two() || !steps_.newest().is_linked()) return nullptr;
    return std::make_shared<StepPlan>(resolve_plan(steps_.newest(), steps_.oldest(), outcome));
}

// Everything is booked that the plan depends on: what only its bounds needed is free again.
void Scheduler::settle(StepsInFlight::Plan plan) {
    steps_.settle_newest(std::move(plan));
    const StepPlan& step = steps_.newest();
    const std::vector<Sequence*> members = members_of(step);
    for (size_t i = 0; i < members.size(); ++i) {
        if (members[i] != nullptr) kv_.shrink(members[i]->cache(), members[i]->len() + step.num_drafts[i]);
    }
    count_step(step);
}

}  // namespace deepinfer
