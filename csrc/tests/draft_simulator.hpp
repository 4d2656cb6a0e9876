// Runs a scheduler with drafts against a modelled clock: nothing is computed, steps cost what a curve says.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "core/cost_curve.hpp"
#include "core/scheduler.hpp"

namespace deepinfer::testing {

enum class DraftMode { kOff, kAll, kScheduled };

struct Workload {
    int64_t num_seqs = 1;
    int64_t num_drafts = 5;
    double confidence = 0.7;  // mean over sequences and steps
    double spread = 0.2;      // between sequences, and again between steps of one
    double honesty = 1.0;     // actual acceptance / confidence
    CostCurve step_curve{};
    CostCurve draft_curve{};
    // What the curves that the scheduler is told do not show, with corrections on: it has to learn this by itself.
    bool observes = false;
    double draft_error = 1.0;  // true time of a draft pass / the curve's
    double ms_per_row = 0.0;   // on top of the step curve
    double sample_ms = 0.0;    // per sequence
    CostCurve step_guess{};    // what the scheduler is told instead of the curves, in a unit of its own
    CostCurve draft_guess{};
};

// Sequences run for ever; drafts are accepted at random with the probability that their confidence says.
class DraftSimulator {
  public:
    DraftSimulator(const Workload& workload, DraftMode mode);

    void run(int64_t num_steps);
    void set_confidence(double mean) { workload_.confidence = mean; }
    // Tokens expected per modelled millisecond in the decode steps of the latest run.
    double tokens_per_ms() const { return tokens_ / ms_; }
    const Scheduler& scheduler() const { return scheduler_; }

  private:
    void step();
    StepMs true_ms(const StepPlan& plan) const;
    void sample(const StepPlan& plan, int64_t index);
    void draft(int64_t seq_id);

    Workload workload_;
    DraftMode mode_;
    Scheduler scheduler_;
    std::mt19937 random_{3};
    std::vector<float> skills_;                    // of sequences
    std::vector<std::vector<float>> confidences_;  // newest of each sequence
    std::vector<int32_t> tokens_given_, cu_tokens_, draft_ids_;
    std::vector<float> new_confidences_;
    double tokens_ = 0.0;
    double ms_ = 0.0;
};

}  // namespace deepinfer::testing
