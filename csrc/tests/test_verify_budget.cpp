// Tests of the two-level verification budget.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <stdexcept>
#include <vector>

#include "core/verify_budget.hpp"

using deepinfer::BudgetChoice;
using deepinfer::CostCurve;
using deepinfer::CumulativeRates;
using deepinfer::StepCosts;

namespace {

std::vector<CumulativeRates> from_confidences(const std::vector<std::vector<float>>& confidences) {
    std::vector<CumulativeRates> rates;
    for (const auto& seq : confidences) rates.push_back(deepinfer::cumulative_rates(seq));
    return rates;
}

struct RandomCase {
    std::vector<CumulativeRates> rates;
    CostCurve curve;
    StepCosts costs;
    int64_t max_rows = 0;
};

RandomCase random_case(std::mt19937_64& rng) {
    RandomCase result;
    const int64_t num_seqs = 1 + static_cast<int64_t>(rng() % 6);
    std::uniform_real_distribution<float> unit(0.0F, 1.0F);
    for (int64_t seq = 0; seq < num_seqs; ++seq) {
        std::vector<float> confidences(rng() % 6);
        for (float& confidence : confidences) confidence = rng() % 4 == 0 ? 1.0F : unit(rng);
        result.rates.push_back(deepinfer::cumulative_rates(confidences));
        result.max_rows += 1 + static_cast<int64_t>(confidences.size());
    }
    std::vector<deepinfer::CostPoint> points;
    int64_t size = 0;
    double ms = 1.0;
    do {
        size += 1 + static_cast<int64_t>(rng() % 4);
        ms += static_cast<double>(unit(rng)) * 0.5;
        points.push_back({size, ms});
    } while (size < result.max_rows);
    result.curve = CostCurve(points);
    result.costs = {static_cast<double>(unit(rng)) * 0.01, static_cast<double>(unit(rng))};
    return result;
}

double value_of(const RandomCase& c, int64_t num_rows) {
    std::vector<float> sorted;
    for (const auto& seq : c.rates) sorted.insert(sorted.end(), seq.begin(), seq.end());
    std::sort(sorted.rbegin(), sorted.rend());
    double expected = static_cast<double>(c.rates.size());
    for (int64_t i = 0; i < num_rows - static_cast<int64_t>(c.rates.size()); ++i)
        expected += sorted[static_cast<size_t>(i)];
    for (const auto& point : c.curve.points()) {
        if (point.size >= num_rows) {
            const double ms = point.ms + c.costs.ms_per_row * static_cast<double>(point.size) + c.costs.fixed_ms;
            return expected / ms;
        }
    }
    return 0.0;
}

}  // namespace

TEST_CASE("level 1 passes the local maximum") {
    const std::vector<CumulativeRates> rates = {
        {.9F, .72F, .5F, .3F, .15F}, {.6F, .3F, .1F, .05F, .01F}, {.95F, .9F, .85F, .8F, .7F}};
    const CostCurve curve({{1, 10}, {2, 10.2}, {4, 10.5}, {8, 11.5}, {16, 15}, {24, 19}});
    const BudgetChoice choice = deepinfer::choose_total_rows(rates, curve, {});
    CHECK(choice.num_rows == 16);
    CHECK(choice.expected_tokens == doctest::Approx(10.77).epsilon(1e-3));
    CHECK(choice.tokens_per_ms == doctest::Approx(.7180).epsilon(1e-3));
}

TEST_CASE("level 2 examples and ties") {
    const auto rates =
        from_confidences({{.9F, .8F, .7F, .6F, .5F}, {.6F, .5F, .3F, .5F, .2F}, {.95F, .95F, .95F, .95F, .9F}});
    CHECK(deepinfer::split_rows(rates, 8) == std::vector<int64_t>{2, 1, 5});
    CHECK(deepinfer::split_rows(rates, 12) == std::vector<int64_t>{4, 2, 6});
    CHECK(deepinfer::split_rows(from_confidences({{.5F, 1, 1}, {.5F, 1, .5F}}), 5) == std::vector<int64_t>{4, 1});
    CHECK(deepinfer::split_rows(from_confidences({{1, 1, 1}, {1, 1, 1}}), 6) == std::vector<int64_t>{4, 2});
    CHECK_THROWS_AS(deepinfer::split_rows(rates, 2), std::invalid_argument);
    CHECK_THROWS_AS(deepinfer::split_rows(rates, 19), std::invalid_argument);
}

TEST_CASE("without a curve everything is verified") {
    const auto rates = from_confidences({{.5F, .5F}, {.1F}});
    CHECK(deepinfer::choose_total_rows(rates, CostCurve(), {}).num_rows == 5);
}

TEST_CASE("a curve that ends early leaves one row a sequence") {
    const auto rates = from_confidences({{.9F}, {.9F}, {.9F}});
    CHECK(deepinfer::choose_total_rows(rates, CostCurve({{2, 1.0}}), {}).num_rows == 3);
}

TEST_CASE("a wrong curve is refused") {
    CHECK_THROWS_AS(CostCurve({{2, 1.0}, {2, 2.0}}), std::invalid_argument);
    CHECK_THROWS_AS(CostCurve({{0, 1.0}}), std::invalid_argument);
    CHECK_THROWS_AS(CostCurve({{1, 0.0}}), std::invalid_argument);
}

TEST_CASE("10,000 random totals equal a brute-force search") {
    std::mt19937_64 rng(5);
    for (int i = 0; i < 10'000; ++i) {
        const RandomCase c = random_case(rng);
        const auto num_seqs = static_cast<int64_t>(c.rates.size());
        int64_t best = num_seqs;
        for (int64_t n = num_seqs; n <= c.max_rows; ++n) {
            if (value_of(c, n) > value_of(c, best)) best = n;
        }
        REQUIRE(deepinfer::choose_total_rows(c.rates, c.curve, c.costs).num_rows == best);
    }
}

TEST_CASE("splits: sum, range, prefix, monotone in the total") {
    std::mt19937_64 rng(9);
    for (int i = 0; i < 2'000; ++i) {
        const RandomCase c = random_case(rng);
        std::vector<int64_t> previous(c.rates.size(), 1);
        for (auto n = static_cast<int64_t>(c.rates.size()); n <= c.max_rows; ++n) {
            const auto rows = deepinfer::split_rows(c.rates, n);
            int64_t sum = 0;
            for (size_t seq = 0; seq < rows.size(); ++seq) {
                sum += rows[seq];
                REQUIRE(rows[seq] >= previous[seq]);
                REQUIRE(rows[seq] <= 1 + static_cast<int64_t>(c.rates[seq].size()));
            }
            REQUIRE(sum == n);
            previous = rows;
        }
    }
}

TEST_CASE("whether a draft is verified never depends on later confidences") {
    std::mt19937_64 rng(13);
    std::uniform_real_distribution<float> unit(0.0F, 1.0F);
    for (int i = 0; i < 2'000; ++i) {
        std::vector<std::vector<float>> confidences(3, std::vector<float>(4));
        for (auto& seq : confidences) {
            for (float& confidence : seq) confidence = unit(rng);
        }
        const int64_t n = 3 + static_cast<int64_t>(rng() % 13);
        const size_t changed = rng() % 4;
        const auto before = deepinfer::split_rows(from_confidences(confidences), n);
        for (size_t k = changed + 1; k < 4; ++k) confidences[1][k] = unit(rng);
        const auto after = deepinfer::split_rows(from_confidences(confidences), n);
        // Draft `changed` of sequence 1 is row changed + 2 of it.
        REQUIRE((before[1] >= static_cast<int64_t>(changed) + 2) == (after[1] >= static_cast<int64_t>(changed) + 2));
    }
}
