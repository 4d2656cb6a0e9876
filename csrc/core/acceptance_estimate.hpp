// Running estimate of how often drafts are accepted, by their position.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/verify_budget.hpp"

namespace deepinfer {

// Two running means over all sequences: what the confidences predict for drafts in general, and what those predictions
// were worth for the drafts that were verified (the calibration factor observed / predicted; verified drafts are chosen
// ones, so that their acceptance alone would flatter the rest). Before anything is known every draft counts as good.
class AcceptanceEstimate {
  public:
    explicit AcceptanceEstimate(int64_t num_drafts);

    // Learns from drafts that have been judged or passed by: their rates, how many were verified, how many of those
    // accepted. `window`: the number of such sets that a mean reaches back.
    void observe(const CumulativeRates& rates, int64_t num_verified, int64_t num_accepted, double window);

    // Probability that drafts 0..k of some sequence are accepted, nothing else known about it.
    float mean(int64_t k) const { return means_[static_cast<size_t>(k)]; }
    // What a predicted rate at position k is worth: calibrated_rate with factors()[k].
    float calibrated(float rate, int64_t k) const;
    const std::vector<float>& factors() const { return factors_; }

  private:
    struct Position {
        double num_sets = 0.0;
        double mean_rate = 1.0;  // predicted, of all drafts
        double predicted = 4.0;  // decaying sums over the verified ones; as if some had been seen and were well judged
        double observed = 4.0;
    };

    void refresh(size_t k);

    std::vector<Position> positions_;
    std::vector<float> factors_;
    std::vector<float> means_;  // non-increasing
};

}  // namespace deepinfer
