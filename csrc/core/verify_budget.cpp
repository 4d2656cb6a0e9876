#include "core/verify_budget.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <numeric>
#include <stdexcept>

#include "core/message.hpp"

namespace deepinfer {

namespace {

std::vector<float> all_rates(std::span<const CumulativeRates> rates) {
    std::vector<float> all;
    all.reserve(rates.size() * (rates.empty() ? 0 : rates.front().size()));
    for (const CumulativeRates& seq : rates) all.insert(all.end(), seq.begin(), seq.end());
    return all;
}

// Radix sort: numbers that are not negative have the order of their bits. A comparison sort would take most of the time
// of scheduling a large batch.
void sort_descending(std::vector<float>& values) {
    constexpr uint32_t kBits = 11;
    constexpr uint32_t kMask = (1U << kBits) - 1;
    std::vector<float> sorted(values.size());
    for (uint32_t shift = 0; shift < 32; shift += kBits) {
        const auto digit = [shift](float value) { return kMask - ((std::bit_cast<uint32_t>(value) >> shift) & kMask); };
        std::array<uint32_t, kMask + 2> begins{};
        for (const float value : values) ++begins[digit(value) + 1];
        std::partial_sum(begins.begin(), begins.end(), begins.begin());
        for (const float value : values) sorted[begins[digit(value)]++] = value;
        values.swap(sorted);
    }
}

}  // namespace

BudgetChoice choose_total_rows(std::span<const CumulativeRates> rates, const CostCurve& curve, const StepCosts& costs,
                               int64_t max_rows) {
    const auto num_seqs = static_cast<int64_t>(rates.size());
    std::vector<float> sorted = all_rates(rates);
    sort_descending(sorted);

    BudgetChoice best;
    const CostPoint* point = nullptr;
    double expected = static_cast<double>(num_seqs);
    for (size_t extra = 0; extra <= sorted.size(); ++extra) {
        if (extra > 0) expected += static_cast<double>(sorted[extra - 1]);
        const int64_t num_rows = num_seqs + static_cast<int64_t>(extra);
        if (num_rows > max_rows) break;
        if (curve.empty()) {
            best = {num_rows, expected, 0.0};
            continue;
        }
        if (point == nullptr || point->size < num_rows) point = curve.at(num_rows);
        if (point == nullptr) break;
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
    std::vector<float> candidates = all_rates(rates);
    const auto num_candidates = static_cast<int64_t>(candidates.size());
    const int64_t extra = num_rows - num_seqs;
    if (extra < 0 || extra > num_candidates) {
        throw std::invalid_argument(
            message("num_rows = ", num_rows, ": expected ", num_seqs, " to ", num_seqs + num_candidates));
    }
    std::vector<int64_t> rows(rates.size(), 1);
    if (extra == 0) return rows;
    const auto last = candidates.begin() + extra - 1;
    std::nth_element(candidates.begin(), last, candidates.end(), std::greater<>());
    const float threshold = *last;
    int64_t num_ties = std::count(candidates.begin(), last + 1, threshold);
    for (size_t seq = 0; seq < rates.size(); ++seq) {
        for (const float rate : rates[seq]) rows[seq] += rate > threshold || (rate == threshold && num_ties-- > 0);
    }
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
