#include "core/verify_budget.hpp"

#include <algorithm>
#include <functional>
#include <stdexcept>

#include "core/message.hpp"

namespace deepinfer {

namespace {

struct Candidate {
    float rate;
    int64_t seq;
};

}  // namespace

BudgetChoice choose_total_rows(std::span<const CumulativeRates> rates, const CostCurve& curve, const StepCosts& costs,
                               int64_t max_rows) {
    const auto num_seqs = static_cast<int64_t>(rates.size());
    std::vector<float> sorted;
    for (const CumulativeRates& seq : rates) sorted.insert(sorted.end(), seq.begin(), seq.end());
    std::sort(sorted.begin(), sorted.end(), std::greater<>());

    BudgetChoice best;
    double expected = static_cast<double>(num_seqs);
    for (size_t extra = 0; extra <= sorted.size(); ++extra) {
        if (extra > 0) expected += static_cast<double>(sorted[extra - 1]);
        const int64_t num_rows = num_seqs + static_cast<int64_t>(extra);
        if (num_rows > max_rows) break;
        if (curve.empty()) {
            best = {num_rows, expected, 0.0};
            continue;
        }
        const CostPoint* point = curve.at(num_rows);
        if (point == nullptr) continue;
        const double ms = point->ms + costs.ms_per_row * static_cast<double>(point->size) + costs.fixed_ms;
        if (expected / ms > best.tokens_per_ms) best = {num_rows, expected, expected / ms};
    }
    if (best.num_rows < num_seqs) {  // the curve ends below the number of sequences
        const double ms = curve.ms(num_seqs) + costs.ms_per_row * static_cast<double>(num_seqs) + costs.fixed_ms;
        best = {num_seqs, static_cast<double>(num_seqs), ms > 0 ? static_cast<double>(num_seqs) / ms : 0.0};
    }
    return best;
}

std::vector<int64_t> split_rows(std::span<const CumulativeRates> rates, int64_t num_rows) {
    const auto num_seqs = static_cast<int64_t>(rates.size());
    std::vector<Candidate> candidates;
    for (int64_t seq = 0; seq < num_seqs; ++seq) {
        for (float rate : rates[static_cast<size_t>(seq)]) candidates.push_back({rate, seq});
    }
    const int64_t extra = num_rows - num_seqs;
    if (extra < 0 || extra > static_cast<int64_t>(candidates.size())) {
        throw std::invalid_argument(message("num_rows = ", num_rows, ": expected ", num_seqs, " to ",
                                            num_seqs + static_cast<int64_t>(candidates.size())));
    }
    // Stable: equal rates keep the order of sequences, and within one the order of drafts.
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.rate > b.rate; });
    std::vector<int64_t> rows(rates.size(), 1);
    for (int64_t i = 0; i < extra; ++i) ++rows[static_cast<size_t>(candidates[static_cast<size_t>(i)].seq)];
    return rows;
}

CumulativeRates cumulative_rates(std::span<const float> confidences) {
    CumulativeRates rates;
    rates.reserve(confidences.size());
    float product = 1.0F;
    for (float confidence : confidences) rates.push_back(product *= confidence);
    return rates;
}

}  // namespace deepinfer
