// Live corrections of the cost curves: what the decode steps really took.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/cost_curve.hpp"
#include "core/recent_median.hpp"

namespace deepinfer {

// Milliseconds of the parts of one step.
struct StepMs {
    double forward = 0.0;  // target model
    double sample = 0.0;   // output matrix, sampling, verification
    double draft = 0.0;    // draft pass with its sequential head; 0 when no drafts were made
};

struct DecodeStep {
    int64_t num_rows = 0;
    int64_t num_seqs = 0;
    bool verifies = false;  // any draft
    bool drafts = false;    // new drafts were made behind it
    StepMs ms{};
};

// The curves are measured before the first request, with short contexts and without sampling (spec/decode.md 6.2), or
// they are guesses of how times relate, and say nothing before `scaled`.
// Everything here is a median of recent steps, so that it depends on nothing but the steps observed, and one step that
// took long for a reason of its own changes nothing. What has not been seen for max_age steps is forgotten: drafts that
// were switched off because they were slow once get another chance.
class StepTimes {
  public:
    static constexpr int64_t kMaxAge = 1000;      // decode steps
    static constexpr int64_t kGuessAge = 10'000;  // likewise, where only a guess would be left
    static constexpr int64_t kSlopeSamples = 10;  // of one size, before it counts for the slope
    static constexpr int64_t kPartSamples = 5;    // of sampling and drafting; of one size or of all to scale a guess
    static constexpr int64_t kDraftSteps = 8;     // with drafts to verify, before their times are more than a guess

    explicit StepTimes(int64_t max_age = kMaxAge) : max_age_(max_age) {}

    void observe(const DecodeStep& step, const CostCurve& step_curve, const CostCurve& draft_curve);

    // Time that a step takes above the curve, by row of the curve's size: longer contexts. Median over the sizes of
    // each size's median, at least 0.
    double ms_per_row(const CostCurve& step_curve) const;
    // A guessed step curve, at every size multiplied by what the steps lately took against it: at a size with too few
    // samples by what lies between those of its neighbours that have enough, the nearest one at either end; before
    // there is any such size by what all steps took, and by 1 before that is known. A size counts with its lower
    // quartile: where others have the core for every second slice, the median of longer steps would have a slice more.
    CostCurve scaled(const CostCurve& step_guess) const;
    // What steps lately took against the curve, whatever their size; 1 when too few have been seen.
    double scale() const { return recent(step_ratio_).value_or(1.0); }
    bool knows_scale() const { return recent(step_ratio_).has_value(); }
    // Whether enough steps without drafts to verify have been seen lately to say what they take.
    bool knows_plain_steps() const { return recent(plain_samples_, 0).has_value(); }
    // The same of steps with drafts to verify.
    bool knows_draft_steps() const;
    // Time of sampling for so many sequences, with or without drafts to verify. For another number of sequences or
    // for the other kind of step if that is all there is, 0 if too few steps have been seen.
    double sample_ms(int64_t num_seqs, bool verifies) const;
    // Time of drafting for so many sequences. Not seen lately: what the curve says, times what drafting lately took
    // against the curve; `scale` where that is not known.
    double draft_ms(int64_t num_seqs, const CostCurve& draft_curve, double scale = 1.0) const;

  private:
    template <size_t kCapacity>
    struct Window {
        RecentMedian<kCapacity> median;
        int64_t last_step = 0;
    };
    // Of one part of a step, by number of sequences; key 0 stands for any number.
    using PartTimes = std::map<int64_t, Window<9>>;

    // Every size that has so many samples and a recent one, and the number of its windows that is wanted; sizes ascend.
    std::vector<CostPoint> known_sizes(int64_t num_samples, double (RecentMedian<101>::*number)() const) const;
    void add(Window<9>& window, double value);
    void add(PartTimes& times, int64_t num_seqs, double ms);
    std::optional<double> recent(const Window<9>& window) const;
    std::optional<double> recent(const PartTimes& times, int64_t num_seqs) const;

    int64_t max_age_;
    int64_t num_steps_ = 0;
    std::map<int64_t, Window<101>> forwards_;  // ms by size of the curve
    PartTimes plain_samples_;
    PartTimes verify_samples_;
    PartTimes drafts_;
    Window<9> step_ratio_;   // to the curve
    Window<9> draft_ratio_;  // to the curve
};

}  // namespace deepinfer
