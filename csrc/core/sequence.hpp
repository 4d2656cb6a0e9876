// One sequence of tokens on its way through the scheduler.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/sequence_cache.hpp"
#include "core/sequence_drafts.hpp"
#include "core/sequence_spec.hpp"
#include "core/stop_rules.hpp"

namespace deepinfer {

// kWaiting: holds nothing, nothing computed. kPrefilling: holds cache, some tokens are still to be computed.
// kDecoding: every token but the last sampled one is computed. kFinished: about to be forgotten.
enum class SequenceStatus : uint8_t { kWaiting, kPrefilling, kDecoding, kFinished };

// On what a sequence begins: the blocks of a saved prefix hold its first num_shared tokens, those from num_skipped on
// are computed again, because only blocks are saved: a window that reached before them would find nothing.
struct Replay {
    int64_t prefix_id = -1;
    int64_t num_shared = 0;
    int64_t num_skipped = 0;
};

// Tokens, progress and holdings of one sequence. token_ids() are committed tokens only (never drafts); num_computed()
// of them are in the caches. Steps are begun by schedule and committed by update, oldest first. Between the two nothing
// here changes, but for a second step that may be begun in the meantime.
class Sequence {
  public:
    static constexpr int64_t kNoStep = -1;

    // max_len: most tokens in all; see Scheduler::add. keep_tokens: see SchedulerConfig.
    Sequence(SequenceSpec spec, int64_t max_len, int64_t keep_tokens = 0);
    // A fork of a sequence whose prompt is computed: same prompt and rules, nothing generated, no cache yet.
    Sequence(const Sequence& parent, int64_t id);

    int64_t id() const { return id_; }
    int64_t prompt_len() const { return prompt_len_; }
    int64_t len() const { return static_cast<int64_t>(token_ids_.size()); }
    int64_t num_generated() const { return len() - prompt_len_; }
    int64_t num_computed() const { return num_computed_; }
    int64_t num_uncomputed() const { return len() - num_computed_; }
    int64_t max_len() const { return rules_.max_len(); }
    // First position that has a row in the consumer layers. It follows from the prompt alone: recomputing generated
    // tokens behind it does not move it.
    int64_t consumer_start() const { return consumer_start_; }
    std::span<const int32_t> token_ids() const { return token_ids_; }
    SequenceStatus status() const { return status_; }
    bool was_preempted() const { return num_once_computed_ > 0 && status_ == SequenceStatus::kWaiting; }
    const Replay& replay() const { return replay_; }
    void set_replay(const Replay& replay) { replay_ = replay; }
    // Tokens of a prefill from here on, also while it waits for its place.
    int64_t num_to_prefill() const { return len() - std::max(num_computed_, replay_.num_skipped); }
    int64_t admission() const { return admission_; }
    // Steps in flight that it takes part in, at most two. Each gives a decoding sequence a token at least.
    int64_t num_steps_in_flight() const { return num_steps_; }
    // Running number of the i-th of them, oldest first.
    int64_t step_in_flight(int64_t i) const { return steps_[static_cast<size_t>(i)].step_id; }
    // Its place in the plan of a step; kNoStep when it takes no part.
    int64_t place_in(int64_t step_id) const;
    bool is_in(int64_t step_id) const { return place_in(step_id) != kNoStep; }
    int64_t last_turn() const { return last_turn_; }
    const SequenceCache& cache() const { return cache_; }
    SequenceCache& cache() { return cache_; }
    const SequenceDrafts& drafts() const { return drafts_; }
    SequenceDrafts& drafts() { return drafts_; }
    // How many of num_drafts drafts a decode step behind those in flight could use: one token more than accepted drafts
    // comes out of it.
    int64_t num_usable_drafts(int64_t num_drafts) const {
        return std::clamp<int64_t>(max_len() - len() - num_steps_ - 1, 0, num_drafts);
    }
    // Whether a decode step behind those in flight may be wanted: they do not end it by themselves.
    bool can_go_on() const { return len() + num_steps_ < max_len(); }
    // Rates of the newest drafts that the next step surely does not verify: those being verified, or the ones before.
    const CumulativeRates& budget_rates() const { return num_steps_ > 0 ? drafts_.rates() : drafts_.old_rates(); }
    // Forks to come: made with the first generated token.
    const std::vector<int64_t>& fork_ids() const { return fork_ids_; }
    int64_t num_forks() const { return static_cast<int64_t>(fork_ids_.size()); }

    // Whether a step with num_rows more tokens ends in a new token.
    bool samples_after(int64_t num_rows) const { return num_rows == num_uncomputed() && len() < max_len(); }
    // How many of the next num_rows tokens had been computed before a preemption.
    int64_t num_recomputed(int64_t num_rows) const;

    // Takes a place among the running; from waiting it starts with a prefill.
    void admit(int64_t admission);
    // Takes one fork off the list of those to come; false: it is not on it.
    bool drop_fork(int64_t id) { return std::erase(fork_ids_, id) > 0; }
    // Takes part in a step, at this place of its plan.
    void begin_step(int64_t step_id, int64_t place) { steps_.at(static_cast<size_t>(num_steps_++)) = {step_id, place}; }
    // The newest step is not to be.
    void cancel_step() { --num_steps_; }
    void take_turn(int64_t turn) { last_turn_ = turn; }
    // Ends a step that gave no token: num_rows tokens are in the caches now. kLength when nothing is to follow.
    FinishReason commit_rows(int64_t num_rows);
    // Ends a step that gave tokens; takes them one by one until a rule ends the sequence. Returns how many were taken.
    // The drafts are used up.
    int64_t commit_tokens(std::span<const int32_t> tokens, FinishReason& reason);
    // Back to waiting, everything to be computed again, without drafts. The caller has released the cache.
    void preempt();

  private:
    struct StepPlace {
        int64_t step_id = kNoStep;
        int64_t place = kNoStep;
    };

    void end_step();

    int64_t id_;
    int64_t prompt_len_;
    int64_t consumer_start_;
    std::vector<int32_t> token_ids_;
    StopRules rules_;
    SequenceCache cache_;
    SequenceDrafts drafts_;
    Replay replay_;
    std::vector<int64_t> fork_ids_;
    SequenceStatus status_ = SequenceStatus::kWaiting;
    int64_t num_computed_ = 0;
    int64_t num_once_computed_ = 0;   // most that was ever computed, for the statistics of recomputing
    int64_t admission_ = -1;          // running number of the latest admission
    std::array<StepPlace, 2> steps_;  // in flight, oldest first
    int64_t num_steps_ = 0;
    int64_t last_turn_ = -1;  // running number of the latest decode turn, to rotate fairly
};

}  // namespace deepinfer
