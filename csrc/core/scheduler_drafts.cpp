// The parts of Scheduler that deal in drafts.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "core/message.hpp"
#include "core/scheduler.hpp"

namespace deepinfer {

namespace {

// Drafts that became tokens. A stop id may be the last token and a draft as well, so the number of tokens is no
// measure.
int64_t num_right(std::span<const int32_t> drafts, std::span<const int32_t> tokens) {
    const auto [draft, token] = std::mismatch(drafts.begin(), drafts.end(), tokens.begin(), tokens.end());
    return draft - drafts.begin();
}

}  // namespace

void Scheduler::set_cost_curves(CostCurve step_curve, CostCurve draft_curve, bool is_guess) {
    const std::lock_guard lock(mutex_);
    draft_planner_.set_cost_curves(std::move(step_curve), std::move(draft_curve), is_guess);
}

void Scheduler::observe_step_ms(int64_t step_id, const StepMs& ms) {
    const std::lock_guard lock(mutex_);
    const StepsInFlight::Plan step = steps_.require(step_id);
    for (const double part : {ms.forward, ms.sample, ms.draft}) {
        if (std::isfinite(part) && part >= 0.0) continue;
        throw std::invalid_argument(message("step ", step_id, ": ", part, " ms; expected a finite time >= 0"));
    }
    if (step->kind != StepKind::kDecode) return;
    draft_planner_.observe({.num_rows = step->num_tokens(),
                            .num_seqs = step->num_seqs(),
                            .verifies = step->num_draft_rows > 0,
                            .drafts = step->make_drafts,
                            .ms = ms});
}

DraftCalibration Scheduler::draft_calibration() const {
    const std::lock_guard lock(mutex_);
    return calibration_;
}

// Begins the step of the chosen sequences, for which there are blocks without drafts.
void Scheduler::add_drafts(const std::vector<Sequence*>& chosen, StepPlan& plan) {
    const std::vector<int64_t> caps = draft_caps(chosen);
    const DraftPlanner::Decision decision = draft_planner_.plan_decode(chosen, caps, config_.max_num_batched_tokens);
    const int64_t num_draft_rows = std::reduce(decision.num_drafts.begin(), decision.num_drafts.end(), int64_t{0});
    plan.reserve(chosen.size());
    for (size_t i = 0; i < chosen.size(); ++i) {
        Sequence& seq = *chosen[i];
        const int64_t num_drafts = decision.num_drafts[i];
        const bool is_linked = seq.num_steps_in_flight() > 0;
        const int64_t cap = is_linked ? std::min(caps[i], num_draft_rows) : caps[i];
        if (!kv_.try_grow(seq.cache(), len_with_drafts(seq, is_linked ? cap : num_drafts))) {
            throw std::logic_error(message("no blocks for ", num_drafts, " drafts of sequence ", seq.id()));
        }
        if (is_linked) {
            begin_linked(plan, seq, num_drafts, cap);
        } else {
            begin(plan, seq, seq.num_uncomputed(), num_drafts, cap);
        }
    }
    plan.make_drafts = decision.makes_drafts;
    plan.keeps_draft_context = decision.keeps_context;
    stats_.num_draft_probes += decision.is_probe && decision.makes_drafts;
    stats_.num_undrafted_steps += config_.num_drafts > 0 && !decision.makes_drafts;
}

// How many drafts of each sequence could be verified. Memory goes to the oldest first, and before any confidence is
// looked at: blocks that one draft's confidence leaves free must not decide about another.
std::vector<int64_t> Scheduler::draft_caps(const std::vector<Sequence*>& chosen) const {
    std::vector<int64_t> caps;
    caps.reserve(chosen.size());
    int64_t num_free = kv_.num_free_blocks();
    for (const Sequence* seq : chosen) {
        const auto num_held = static_cast<int64_t>(seq->cache().block_ids.size());
        const int64_t num_fitting = (num_held + num_free) * config_.block_size;
        int64_t cap = seq->num_usable_drafts(num_drafts_to_come(*seq));
        if (len_with_drafts(*seq, cap) > num_fitting) cap = num_fitting - most_len(*seq);
        caps.push_back(cap);
        num_free -= std::max<int64_t>(kv_.blocks_for(len_with_drafts(*seq, cap)) - num_held, 0);
    }
    return caps;
}

// Drafts that a sequence has, or may have once the step in flight is over.
int64_t Scheduler::num_drafts_to_come(const Sequence& seq) const {
    if (seq.num_steps_in_flight() == 0) return seq.drafts().size();
    return steps_.oldest().make_drafts ? config_.num_drafts : 0;
}

// Whether a draft made behind a step could be verified in the next one.
bool Scheduler::can_use_drafts(const StepPlan& plan) const {
    for (size_t i = 0; i < plan.seq_ids.size(); ++i) {
        if (plan.samples[i] != 0 && find(plan.seq_ids[i])->num_usable_drafts(1) == 1) return true;
    }
    return false;
}

// Sequences that will be decoding when a prefill step is over.
int64_t Scheduler::num_decoding_after(const StepPlan& plan) const {
    int64_t num_seqs = std::count_if(running_.begin(), running_.end(),
                                     [](const Sequence* seq) { return seq->status() == SequenceStatus::kDecoding; });
    for (size_t i = 0; i < plan.seq_ids.size(); ++i) num_seqs += plan.num_samplers(i);
    return std::clamp<int64_t>(num_seqs, 1, std::min(config_.max_num_seqs, config_.max_decode_seqs()));
}

void Scheduler::require_valid(const StepPlan& step, const NewDrafts& drafts) const {
    if (drafts.token_ids.empty() && drafts.confidences.empty()) return;
    int64_t num_samplers = 0;
    for (size_t i = 0; i < step.seq_ids.size(); ++i) num_samplers += step.num_samplers(i);
    const auto num_entries = static_cast<size_t>(num_samplers * config_.num_drafts);
    if (drafts.token_ids.size() != num_entries) {
        throw std::invalid_argument(message("draft_ids has ", drafts.token_ids.size(), " entries; the step gives ",
                                            num_samplers, " sequences tokens, with ", config_.num_drafts,
                                            " drafts each that is ", num_entries));
    }
    if (!drafts.confidences.empty() && drafts.confidences.size() != num_entries) {
        throw std::invalid_argument(
            message("confidences has ", drafts.confidences.size(), " entries, draft_ids has ", num_entries));
    }
}

// Sequences that have ended, wait again or are gone get none.
void Scheduler::give_drafts(const StepPlan& step, std::span<Sequence* const> members, const NewDrafts& drafts) {
    if (drafts.token_ids.empty()) return;
    const auto num_drafts = static_cast<size_t>(config_.num_drafts);
    size_t begin = 0;
    const auto give = [&](Sequence* seq) {
        if (seq != nullptr && seq->status() == SequenceStatus::kDecoding) {
            const bool is_rated = !drafts.confidences.empty();
            seq->drafts().give(drafts.token_ids.subspan(begin, num_drafts),
                               is_rated ? drafts.confidences.subspan(begin, num_drafts) : drafts.confidences);
        }
        begin += num_drafts;
    };
    for (size_t i = 0; i < step.seq_ids.size(); ++i) {
        if (step.samples[i] == 0) continue;
        give(members[i]);
        for (const int64_t fork_id : step.forks_of(i)) give(find(fork_id));
    }
}

void Scheduler::commit_decode(Sequence& seq, std::span<const int32_t> tokens, int64_t num_verified,
                              StepUpdate& update) {
    const int64_t num_accepted = num_right(seq.drafts().ids().first(static_cast<size_t>(num_verified)), tokens);
    draft_planner_.observe(seq.drafts(), num_verified, num_accepted);
    calibration_.observe(seq.drafts().confidences(), seq.drafts().ids(), num_verified, tokens);
    const int64_t num_taken = report(seq, tokens, update);
    if (num_verified == 0) return;
    if (seq.num_steps_in_flight() == 0) kv_.shrink(seq.cache(), seq.num_computed());
    seq.drafts().set_outcome({num_verified, std::min(num_accepted, num_taken), num_taken});
    count_verified(seq.drafts().outcome(), 1);
}

void Scheduler::count_verified(const VerifyOutcome& outcome, int64_t sign) {
    stats_.num_verify_steps += sign;
    stats_.num_verify_tokens += sign * outcome.num_tokens;
    stats_.num_drafts_verified += sign * outcome.num_verified;
    stats_.num_drafts_accepted += sign * outcome.num_accepted;
    for (int64_t k = 0; k < outcome.num_verified; ++k) {
        stats_.verified_at[static_cast<size_t>(k)] += sign;
        if (k < outcome.num_accepted) stats_.accepted_at[static_cast<size_t>(k)] += sign;
    }
}

// Takes the last num_dropped tokens of a sequence out of what was counted. outcome: of its latest step.
void Scheduler::cut_counts(int64_t num_dropped, VerifyOutcome outcome) {
    stats_.num_generated_tokens -= num_dropped;
    if (outcome.num_verified == 0 || num_dropped == 0) return;
    count_verified(outcome, -1);
    outcome.num_tokens -= std::min(num_dropped, outcome.num_tokens);
    outcome.num_accepted = std::min(outcome.num_accepted, outcome.num_tokens);
    count_verified(outcome, 1);
}

}  // namespace deepinfer
