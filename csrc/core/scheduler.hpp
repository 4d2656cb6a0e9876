// Decides, step by step, which tokens of which sequences are computed, and keeps the books on it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/draft_calibration.hpp"
#include "core/draft_planner.hpp"
#include "core/kv_manager.hpp"
#include "core/new_drafts.hpp"
#include "core/prefix_store.hpp"
#include "core/scheduler_config.hpp"
#include "core/sequence.hpp"
#include "core/sequence_spec.hpp"
#include "core/stats.hpp"
#include "core/step_estimator.hpp"
#include "core/step_outcome.hpp"
#include "core/step_plan.hpp"
#include "core/step_policy.hpp"
#include "core/step_update.hpp"
#include "core/steps_in_flight.hpp"
#include "core/verify_outcome.hpp"
#include "core/waiting_queue.hpp"

namespace deepinfer {

// The loop is: add*, then { plan = schedule(); compute it; update(plan.step_id, tokens) } until nothing is unfinished.
// Or, so that whatever computes need not wait for the books, with one more step planned in front of each update:
// { plan = schedule(); begin to compute it; update(the step before); sample by settled(plan.step_id) }.
//
// * A step is prefill or decode (step_policy.hpp). Admission is first in, first out, for as long as budgets allow; it
//   reserves the blocks of the whole text, so a prefill that began is never short of memory.
// * A prefill step takes max_prefill_chunk tokens of a sequence and max_num_batched_tokens in all.
// * A decode step feeds one token of each running sequence; if the token budget is smaller than that, the sequences
//   that were served longest ago go first.
// * With num_drafts > 0 update may bring drafts along. The next decode step verifies some of them in rows behind the
//   newest token (draft_planner.hpp), as far as limits, the token budget and free blocks allow: nobody is preempted or
//   left out for a draft. It then gives a sequence the drafts accepted and one token more. Blocks of rejected rows are
//   freed at once.
// * When a decoding sequence needs a block and none is free, the most recently admitted sequence is preempted: it goes
//   back to the front of the queue and later recomputes prompt and generated tokens in a prefill.
// * Forks (SequenceSpec::fork_seq_ids) are further texts on one prompt. They come with the first generated token: each
//   shares the blocks that the prompt fills and takes a copy of the rest, made at the start of the next step. Admission
//   keeps a seat, a slot and a block for every fork to come; a family larger than the whole engine runs once nothing
//   else does, and those without a place wait at the front of the queue, to compute the prompt again.
// * Over a decode step in flight the next one is planned on bounds. Of a sequence in both the plan leaves open what the
//   step in flight decides (step_plan.hpp), and the blocks of the longest text that may come of it are reserved. What
//   ended in the step in flight is computed once more for nothing and gets no token. Its blocks and slot are free as
//   soon as that is known: who gets them writes behind the step that may still write there. Nobody is preempted for
//   bounds, and no sequence is planned that surely ends: where bounds do not fit, the plan is empty, and the step in
//   flight is to be booked first. Booking it settles the step behind it: that plan becomes exact (resolve_plan.hpp),
//   blocks that only the bounds needed are free again, and the step is counted.
// * A text ends at the latest with max_model_len tokens, or with the token that no longer fits the whole cache, so
//   that whatever waits can always run alone and nothing waits for ever.
//
// Every public function may be called from any thread. A caller's mistake is a std::invalid_argument that names the
// value; a std::logic_error is a call out of order or a bug.
class Scheduler {
  public:
    explicit Scheduler(const SchedulerConfig& config);

    // Queues a sequence and its forks. Throws std::invalid_argument for a wrong value or a prompt that could never run.
    void add(SequenceSpec spec);
    // Forgets a sequence and frees what it holds, also while a step with it is in flight. False: it is not known.
    // Forks to come go with the sequence that they would come from.
    bool abort(int64_t seq_id);
    // Ends a sequence from outside (stop string) with its first keep_tokens generated tokens. False: it is not known.
    // For one that ended by itself in the latest update the statistics are corrected all the same, once.
    bool finish(int64_t seq_id, int64_t keep_tokens);

    // Plans the next step, over nothing or one decode step in flight; else std::logic_error. Over one the plan is a
    // linked decode step, a prefill step of other sequences, or empty. An empty plan need not be booked. `kind` is what
    // several replicas have agreed on: the plan is of that kind, or empty if there is nothing of it here.
    std::shared_ptr<const StepPlan> schedule(std::optional<StepKind> kind = std::nullopt);
    // What the next step could be.
    StepVote vote() const;
    // The exact plan of a step in flight: of a linked one once the step before it is booked, until then a
    // std::logic_error.
    std::shared_ptr<const StepPlan> settled(int64_t step_id) const;
    // Takes the tokens of the oldest step in flight: those of plan row i are tokens[cu_tokens[i] .. cu_tokens[i+1]).
    // One token where the plan samples (with drafts, the accepted ones and one more) and one for each of its forks,
    // none elsewhere; what is given to sequences that are gone is ignored. `drafts`: one row for each of the plan's
    // sequences that samples and behind it one for each of its forks, gone or not. Nothing changes on an error.
    StepUpdate update(int64_t step_id, std::span<const int32_t> tokens, std::span<const int32_t> cu_tokens,
                      const NewDrafts& drafts = {});
    // Gives up the newest step in flight after a failure: its sequences are as they were before it, its copies come
    // again.
    void discard(int64_t step_id);

    // What steps cost, for `varlen` (draft_planner.hpp). Injected, measured elsewhere or guessed; may change any time.
    void set_cost_curves(CostCurve step_curve, CostCurve draft_curve, bool is_guess = false);
    // What a step in flight really took, to be said before its update; corrects the curves (step_times.hpp). Throws
    // std::invalid_argument for another step and for times that are not finite or below 0.
    void observe_step_ms(int64_t step_id, const StepMs& ms);
    // From now on stats() sums up what the scheduled steps cost, a linked one when it is settled. Null: nothing is
    // counted.
    void set_estimator(std::shared_ptr<const StepEstimator> estimator);

    // Saves the computed tokens of a sequence, running or ended a short while ago, for later ones to begin on
    // (SequenceSpec::prefix_id); returns the prefix's id. Its blocks are nobody else's until it is closed, so it has to
    // leave room for the longest unfinished sequence. Throws std::invalid_argument when that, or the text, is not
    // there.
    int64_t save_prefix(int64_t seq_id);
    // Gives a prefix up; sequences that begin on it keep it as long as they live. False: it is not known.
    bool close_prefix(int64_t prefix_id);
    std::vector<int32_t> prefix_token_ids(int64_t prefix_id) const;
    // Whether a sequence is unfinished, or has ended and its text is still there to be saved.
    bool is_in_caches(int64_t seq_id) const;
    // Different blocks that saved prefixes hold: so many fewer are there for sequences.
    int64_t num_saved_blocks() const;

    // Running numbers of the steps that are planned, and neither booked nor discarded; oldest first, without empty
    // ones.
    std::vector<int64_t> steps_in_flight() const;
    bool has_unfinished() const;
    int64_t num_waiting() const;
    int64_t num_running() const;
    int64_t num_free_blocks() const;
    int64_t num_free_state_slots() const;
    int64_t capacity_tokens() const { return config_.capacity_tokens(); }
    const SchedulerConfig& config() const { return config_; }
    SchedulerStats stats() const;
    DraftCalibration draft_calibration() const;
    // Prompt and generated tokens of an unfinished sequence; of a fork to come its prompt.
    std::vector<int32_t> token_ids(int64_t seq_id) const;

    // Proves the invariants; throws std::logic_error with the first one broken. O(blocks + sequences).
    void check() const;

  private:
    // What the statistics have counted for a sequence that has ended.
    struct EndedSequence {
        int64_t num_generated;
        VerifyOutcome outcome;
        FinishReason reason;
    };
    struct PendingCopy {
        int64_t seq_id;
        CacheCopy copy;
        int64_t step_id = Sequence::kNoStep;  // the step in flight that makes it
    };

    // scheduler.cpp
    void require_valid(const SequenceSpec& spec, const Replay& replay) const;
    int64_t longest_len(const SequenceSpec& spec, const Replay& replay) const;
    Sequence* find(int64_t seq_id) const;
    Sequence* find_parent(int64_t fork_id) const;
    bool is_known(int64_t seq_id) const { return sequences_.contains(seq_id) || fork_parents_.contains(seq_id); }
    bool drop_fork(int64_t fork_id);
    void drop_forks(Sequence& seq);
    void drop_copy(int64_t seq_id);
    void remove(Sequence& seq);
    void cut_counts(int64_t num_dropped, VerifyOutcome outcome);
    void finish_ended(int64_t seq_id, int64_t keep_tokens);

    // scheduler_prefix.cpp
    int64_t num_usable_blocks() const { return config_.num_blocks - prefixes_.num_held_blocks(); }
    Replay replay_of(const SequenceSpec& spec) const;
    int64_t num_shared_tokens(const Replay& replay) const;
    bool has_pending_copy(int64_t seq_id) const;
    int64_t most_own_blocks(const Sequence& seq) const;
    void open_cache(Sequence& seq);
    int64_t num_own_tokens(const Sequence& seq) const { return seq.len() - num_shared_tokens(seq.replay()); }
    void forget(Sequence& seq);

    // scheduler_schedule.cpp
    StepVote vote_now() const;
    bool can_admit_next() const;
    int64_t prefill_rows(const Sequence& seq, int64_t budget) const;
    void plan_prefill(StepPlan& plan);
    void plan_decode(StepPlan& plan);
    std::vector<Sequence*> decode_order() const;
    std::vector<Sequence*> choose_exact(StepPlan& plan);
    bool grow_or_preempt(Sequence& seq, std::vector<Sequence*>& chosen, StepPlan& plan);
    Sequence& admit_next();
    void preempt(Sequence& seq, StepPlan& plan);
    void begin(StepPlan& plan, Sequence& seq, int64_t num_rows, int64_t num_drafts = 0, int64_t draft_cap = 0);
    void append_copies(StepPlan& plan);
    void count_step(const StepPlan& plan);

    // scheduler_update.cpp
    Sequence* find_in(const StepPlan& step, size_t i) const;
    std::vector<Sequence*> members_of(const StepPlan& step) const;
    void require_valid(const StepPlan& step, std::span<Sequence* const> members, std::span<const int32_t> tokens,
                       std::span<const int32_t> cu_tokens) const;
    void end_copies(int64_t step_id);
    void commit(Sequence& seq, const StepPlan& step, size_t i, std::span<const int32_t> tokens, StepUpdate& update);
    int64_t report(Sequence& seq, std::span<const int32_t> tokens, StepUpdate& update);
    void make_forks(Sequence& parent, std::span<const int64_t> fork_ids, std::span<const int32_t> tokens,
                    StepUpdate& update);
    void end_forks(Sequence& parent, StepUpdate& update);
    bool place_fork(const Sequence& parent, Sequence& fork);
    void retire_finished(const StepUpdate& update);

    // scheduler_overlap.cpp
    int64_t most_new_tokens(const Sequence& seq) const;
    int64_t most_len(const Sequence& seq) const { return seq.len() + most_new_tokens(seq); }
    int64_t len_with_drafts(const Sequence& seq, int64_t num_drafts) const;
    int64_t num_planned_tokens(const Sequence& seq) const;
    std::vector<Sequence*> choose_linked();
    void begin_linked(StepPlan& plan, Sequence& seq, int64_t num_drafts, int64_t draft_cap);
    StepsInFlight::Plan settle_next(const StepOutcome& outcome) const;
    void settle(StepsInFlight::Plan plan);

    // scheduler_drafts.cpp
    void add_drafts(const std::vector<Sequence*>& chosen, StepPlan& plan);
    std::vector<int64_t> draft_caps(const std::vector<Sequence*>& chosen) const;
    int64_t num_drafts_to_come(const Sequence& seq) const;
    bool can_use_drafts(const StepPlan& plan) const;
    int64_t num_decoding_after(const StepPlan& plan) const;
    void require_valid(const StepPlan& step, const NewDrafts& drafts) const;
    void give_drafts(const StepPlan& step, std::span<Sequence* const> members, const NewDrafts& drafts);
    void commit_decode(Sequence& seq, std::span<const int32_t> tokens, int64_t num_verified, StepUpdate& update);
    void count_verified(const VerifyOutcome& outcome, int64_t sign);

    // scheduler_check.cpp
    void check_sequence(const Sequence& seq) const;
    void check_decoding(const Sequence& seq) const;
    void check_steps() const;
    void check_copies() const;
    void check_running() const;
    void check_forks() const;

    const SchedulerConfig config_;
    mutable std::mutex mutex_;
    KVManager kv_;
    PrefixStore prefixes_{kv_};
    DraftPlanner draft_planner_;
    std::shared_ptr<const StepEstimator> estimator_;
    std::unordered_map<int64_t, std::unique_ptr<Sequence>> sequences_;  // all unfinished ones
    WaitingQueue waiting_;
    std::vector<Sequence*> running_;                     // admitted ones, oldest admission first
    std::unordered_map<int64_t, int64_t> fork_parents_;  // every fork to come -> the sequence that it will come from
    int64_t num_reserved_ = 0;                           // forks to come of running sequences
    std::vector<PendingCopy> pending_copies_;            // not known to be made yet, the oldest first
    std::unordered_map<int64_t, EndedSequence> ended_;   // by themselves, in the latest update
    StepsInFlight steps_;
    int64_t next_step_id_ = 0;
    int64_t next_admission_ = 0;
    int64_t next_turn_ = 0;
    SchedulerStats stats_;
    DraftCalibration calibration_;
};

}  // namespace deepinfer
