// How many drafts of which sequence the next step verifies, and whether new ones are made behind it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/acceptance_estimate.hpp"
#include "core/cost_curve.hpp"
#include "core/draft_policy.hpp"
#include "core/scheduler_config.hpp"
#include "core/sequence.hpp"
#include "core/step_times.hpp"
#include "core/verify_budget.hpp"

namespace deepinfer {

// Without `varlen` or a cost curve every draft is verified and drafts are always made. With both, a policy decides
// whether drafts pay, level 1 of the budget how many rows the step has, and level 2 whose they are. Nothing that
// decides about a draft depends on the draft itself or on later ones, or on their confidences.
class DraftPlanner {
  public:
    struct Decision {
        bool makes_drafts = false;
        bool is_probe = false;
        bool keeps_context = true;
        std::vector<int64_t> num_drafts;  // to be verified, one number for each sequence
    };

    explicit DraftPlanner(const SchedulerConfig& config);

    // step_curve: ms against rows of a target step; draft_curve: ms against sequences of a draft pass. Empty: not
    // known. What was learnt from times observed is forgotten. is_guess: the times are in a unit of their own, the same
    // for both curves, and of a shape that need not be quite true; the times observed correct both.
    void set_cost_curves(CostCurve step_curve, CostCurve draft_curve, bool is_guess = false);

    // Plans a decode step. caps: drafts of each sequence that could be verified, limits and memory considered, but no
    // confidence. max_rows: rows of the step in all, at least one a sequence.
    Decision plan_decode(std::span<Sequence* const> seqs, std::span<const int64_t> caps, int64_t max_rows);
    // Whether drafts are made behind a prefill step, if so many sequences decode afterwards.
    bool drafts_after_prefill(int64_t num_seqs) const;
    // Whether a prefill step leaves the draft model its context. Drafts that are made all the same are worse, not
    // wrong.
    bool keeps_context() const { return !is_scheduled() || policy_.keeps_context(); }
    // Learns from drafts whose step is over: num_verified of them were verified, num_accepted of those accepted.
    void observe(const SequenceDrafts& drafts, int64_t num_verified, int64_t num_accepted);
    // Corrects the curves by what a decode step really took. Without it they are taken at their word.
    void observe(const DecodeStep& step) {
        times_.observe(step, step_guess_.empty() ? step_curve_ : step_guess_, draft_curve_);
    }
    const StepTimes& times() const { return times_; }
    // What rates are worth at present, by position; the split of a step goes by rates times these.
    const std::vector<float>& rate_factors() const { return estimate_.factors(); }

  private:
    // What the newest decision was made from.
    struct KnownValues {
        DraftValues values;
        int64_t num_seqs = 0;
        int64_t num_reused = 0;  // later steps that went by them as well
    };

    bool knows_values(int64_t num_seqs);
    bool is_scheduled() const { return config_.varlen && !step_curve_.empty(); }
    StepCosts costs(int64_t num_seqs, bool with_drafts) const;
    double draft_ms(int64_t num_seqs) const;
    // Steps of one kind alone would never show that a guess is wrong about the other, so both come before a decision.
    bool lacks_plain_steps() const { return !step_guess_.empty() && !times_.knows_plain_steps(); }
    bool lacks_draft_steps() const { return !step_guess_.empty() && !times_.knows_draft_steps(); }
    double step_ms(int64_t num_rows, const StepCosts& costs) const;
    DraftValues values(std::span<const CumulativeRates> rates, int64_t max_rows, BudgetChoice& choice) const;
    int64_t probe_rows(int64_t num_seqs, int64_t max_rows) const;
    double probe_steps(int64_t num_seqs, int64_t max_rows) const;
    void estimate_rates(std::span<Sequence* const> seqs);
    bool cut_rates(std::span<const int64_t> caps);
    std::vector<int64_t> split(std::span<Sequence* const> seqs, std::span<const int64_t> caps, int64_t num_rows);

    const SchedulerConfig config_;
    CostCurve step_guess_;  // empty unless the curves are guesses
    CostCurve step_curve_;  // in force: of a guess, what the newest correction made of it
    CostCurve draft_curve_;
    DraftPolicy policy_;
    AcceptanceEstimate estimate_;
    StepTimes times_;
    KnownValues known_;
    std::vector<CumulativeRates> rates_;  // scratch, one for each sequence
};

}  // namespace deepinfer
