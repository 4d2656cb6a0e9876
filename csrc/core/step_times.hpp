// Live corrections of the cost curves: what the decode steps really took.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

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

// The curves are measured before the first request, with short contexts and without sampling (spec/decode.md 6.2).
// Everything here is a median of recent steps, so that it depends on nothing but the steps observed, and one step that
// took long for a reason of its own changes nothing. What has not been seen for kMaxAge steps is forgotten: drafts that
// were switched off because they were slow once get another chance.
class StepTimes {
  public:
    static constexpr int64_t kMaxAge = 1000;      // decode steps
    static constexpr int64_t kSlopeSamples = 10;  // of one size, before it counts
    static constexpr int64_t kPartSamples = 5;    // of sampling and drafting

    void observe(const DecodeStep& step, const CostCurve& step_curve, const CostCurve& draft_curve);

    // Time that a step takes above the curve, by row of the curve's size: longer contexts. Median over the sizes of
    // each size's median, at least 0.
    double ms_per_row() const;
    // Time of sampling for so many sequences, with or without drafts to verify. For another number of sequences or
    // for the other kind of step if that is all there is, 0 if too few steps have been seen.
    double sample_ms(int64_t num_seqs, bool verifies) const;
    // Time of drafting for so many sequences. Not seen lately: what the curve says, times what drafting lately took
    // against the curve.
    double draft_ms(int64_t num_seqs, const CostCurve& draft_curve) const;

  private:
    template <size_t kCapacity>
    struct Window {
        RecentMedian<kCapacity> median;
        int64_t last_step = 0;
    };
    // Of one part of a step, by number of sequences; key 0 stands for any number.
    using PartTimes = std::map<int64_t, Window<9>>;

    void add(Window<9>& window, double value);
    void add(PartTimes& times, int64_t num_seqs, double ms);
    std::optional<double> recent(const Window<9>& window) const;
    std::optional<double> recent(const PartTimes& times, int64_t num_seqs) const;

    int64_t num_steps_ = 0;
    std::map<int64_t, Window<101>> slopes_;  // by size of the curve
    PartTimes plain_samples_;
    PartTimes verify_samples_;
    PartTimes drafts_;
    Window<9> draft_ratio_;  // to the curve
};

}  // namespace deepinfer
