// How many rows a verification step carries, and how they are shared out (two-level budget).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/cost_curve.hpp"

namespace deepinfer {

// Estimated probability that drafts 0..k of one sequence are all accepted, for each k: non-increasing, in [0, 1], no
// NaN.
using CumulativeRates = std::vector<float>;

// What a step costs beside the curve of its rows.
struct StepCosts {
    double ms_per_row = 0.0;  // live correction: context length, proportional to the curve's size
    double fixed_ms = 0.0;    // sampling, and the draft pass when drafts are made
};

struct BudgetChoice {
    int64_t num_rows = 0;        // rows of the step in all
    double expected_tokens = 0;  // one per sequence, plus the rates of the drafts verified
    double tokens_per_ms = 0;
};

// Level 1: the total. Rows are added in the order of the rates, best first, and the total with the highest expected
// tokens per time wins, the smallest on ties. There is no early stop: the curve is a staircase, later points may be
// better. `rates` must be older than the drafts to be judged: a total that depends on the confidence of those drafts
// would bias what is accepted. Without a curve everything is verified. max_rows: most rows of the step, at least one
// for each sequence.
BudgetChoice choose_total_rows(std::span<const CumulativeRates> rates, const CostCurve& curve, const StepCosts& costs,
                               int64_t max_rows = std::numeric_limits<int64_t>::max());

// Level 2: the split. One row for each sequence, then one more for each of the best rates; ties go to the earlier
// sequence, and within a sequence to the earlier draft, so that the drafts verified are always the first ones.
// Throws std::invalid_argument when num_rows is below the number of sequences or above what the rates can take.
std::vector<int64_t> split_rows(std::span<const CumulativeRates> rates, int64_t num_rows);

// A confidence that may count: what is not in [0, 1] becomes the nearest that is, NaN 0.
inline float bounded_confidence(float given) {
    return given > 0.0F ? (given < 1.0F ? given : 1.0F) : 0.0F;
}

// What a predicted rate is worth where so much of what was predicted comes true.
inline float calibrated_rate(float rate, float factor) {
    return std::min(rate * factor, 1.0F);
}

// Running product of per-draft confidences, each the probability of acceptance given that the earlier were accepted.
CumulativeRates cumulative_rates(std::span<const float> confidences);

}  // namespace deepinfer
