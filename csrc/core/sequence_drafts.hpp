// The drafts that one sequence holds, and how likely they and their predecessors are to be accepted.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/verify_budget.hpp"
#include "core/verify_outcome.hpp"

namespace deepinfer {

// ids() are guesses of the tokens behind the newest one, to be verified in the sequence's next step; rates() go with
// them. old_rates() belong to the drafts before those: a step's total may depend on them, never on rates()
// (verify_budget.hpp). Neither outlives a preemption.
class SequenceDrafts {
  public:
    std::span<const int32_t> ids() const { return ids_; }
    int64_t size() const { return static_cast<int64_t>(ids_.size()); }
    const CumulativeRates& rates() const { return rates_; }
    // Confidence of each id by itself, given that those before it are accepted.
    std::span<const float> confidences() const { return confidences_; }
    const CumulativeRates& old_rates() const { return old_rates_; }

    // The text goes on: what was newest is old, and there are no drafts until some are given.
    void advance();
    // token_ids end at the first one below 0. confidences: one for each id, in [0, 1] (what is not counts as the
    // nearest that is, NaN as 0); empty: 1 for all.
    void give(std::span<const int32_t> token_ids, std::span<const float> confidences);
    // What came of the drafts in the latest step of the sequence.
    const VerifyOutcome& outcome() const { return outcome_; }
    void set_outcome(const VerifyOutcome& outcome) { outcome_ = outcome; }

  private:
    std::vector<int32_t> ids_;
    std::vector<float> confidences_;
    CumulativeRates rates_;
    CumulativeRates old_rates_;
    VerifyOutcome outcome_;
};

}  // namespace deepinfer
