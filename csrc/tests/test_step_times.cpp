// Tests of the live corrections of cost curves, of the medians under them, and of the histogram of judged drafts.
#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "core/draft_calibration.hpp"
#include "core/step_times.hpp"

using namespace deepinfer;

namespace {

const CostCurve kCurve({{1, 10}, {4, 12}, {16, 20}});
const CostCurve kDraftCurve({{1, 1}, {2, 2}, {5, 5}});

void observe(StepTimes& times, int count, DecodeStep step) {
    for (int i = 0; i < count; ++i) times.observe(step, kCurve, kDraftCurve);
}

}  // namespace

TEST_CASE("recent median: of the newest, the higher of two middle ones") {
    RecentMedian<3> recent;
    CHECK(recent.median() == 0.0);
    recent.add(5);
    recent.add(1);
    CHECK(recent.median() == 5);
    recent.add(2);
    CHECK(recent.median() == 2);
    recent.add(9);  // 5 is forgotten
    CHECK(recent.median() == 2);
    recent.add(8);
    CHECK(recent.median() == 8);
    CHECK(recent.size() == 3);
    CHECK(recent.lower_quartile() == 2);
    RecentMedian<8> wide;
    CHECK(wide.lower_quartile() == 0.0);
    for (const double value : {8, 7, 6, 5, 4, 3, 2, 1}) wide.add(value);
    CHECK(wide.lower_quartile() == 3);
}

TEST_CASE("step times: slope is the median over sizes with enough samples, and never below 0") {
    StepTimes times;
    observe(times, 9, {.num_rows = 3, .num_seqs = 3, .ms = {.forward = 14}});
    CHECK(times.ms_per_row(kCurve) == 0.0);  // nine are too few
    observe(times, 1, {.num_rows = 4, .num_seqs = 3, .ms = {.forward = 1000}});
    CHECK(times.ms_per_row(kCurve) == doctest::Approx(0.5));  // (14 - 12) / 4, the slow one does not count
    observe(times, 10, {.num_rows = 9, .num_seqs = 3, .ms = {.forward = 52}});
    CHECK(times.ms_per_row(kCurve) == doctest::Approx(2.0));  // (52 - 20) / 16
    observe(times, 10, {.num_rows = 1, .num_seqs = 1, .ms = {.forward = 1}});
    CHECK(times.ms_per_row(kCurve) == doctest::Approx(0.5));
    observe(times, 20, {.num_rows = 17, .num_seqs = 3, .ms = {.forward = 1e6}});  // past the curve
    CHECK(times.ms_per_row(kCurve) == doctest::Approx(0.5));

    StepTimes fast;
    observe(fast, 50, {.num_rows = 4, .num_seqs = 4, .ms = {.forward = 6}});
    CHECK(fast.ms_per_row(kCurve) == 0.0);
}

TEST_CASE("step times: a guess is scaled by all steps, then by the sizes that are known and between them") {
    const CostCurve guess({{1, 1}, {2, 2}, {4, 3}, {6, 4}, {16, 10}});
    const auto times_of = [&](const StepTimes& times) {
        std::vector<double> ms;
        const CostCurve scaled = times.scaled(guess);
        for (const CostPoint& point : scaled.points()) ms.push_back(point.ms);
        return ms;
    };
    StepTimes times;
    const auto observe_ms = [&](int count, int64_t num_rows, double ms) {
        for (int i = 0; i < count; ++i) times.observe({.num_rows = num_rows, .num_seqs = 1, .ms = {ms}}, guess, {});
    };
    observe_ms(4, 2, 20);
    CHECK_FALSE(times.knows_scale());
    CHECK_FALSE(times.knows_plain_steps());
    CHECK(times_of(times) == std::vector<double>{1, 2, 3, 4, 10});
    observe_ms(1, 2, 20);
    CHECK(times.scale() == 10);
    CHECK(times_of(times) == std::vector<double>{10, 20, 30, 40, 100});
    CHECK(times.draft_ms(3, kDraftCurve, times.scale()) == 50);
    CHECK(times.knows_plain_steps());
    observe_ms(15, 2, 30);  // three quarters
    CHECK(times_of(times) == std::vector<double>{15, 30, 45, 60, 150});
    observe_ms(10, 6, 20);
    CHECK(times_of(times) == std::vector<double>{15, 30, 30, 20, 50});  // 15, 15, 10, 5 and 5 times the guess
    observe_ms(static_cast<int>(StepTimes::kMaxAge) - 10, 6, 20);
    CHECK(times_of(times) == std::vector<double>{15, 30, 30, 20, 50});
    observe_ms(1, 6, 20);
    CHECK(times_of(times) == std::vector<double>{5, 10, 15, 20, 50});  // size 2 is forgotten
    observe_ms(200, 6, 0);
    CHECK(times_of(times).front() > 0);
}

TEST_CASE("step times: sampling by number of sequences, else of any, else nothing") {
    StepTimes times;
    CHECK(times.sample_ms(2, true) == 0);
    const DecodeStep step{.num_rows = 6, .num_seqs = 2, .verifies = true, .drafts = true, .ms = {10, 3, 4}};
    observe(times, 4, step);
    CHECK(times.sample_ms(2, true) == 0);
    observe(times, 1, step);
    CHECK(times.sample_ms(2, true) == 3);
    CHECK(times.sample_ms(7, true) == 3);
    CHECK(times.sample_ms(2, false) == 3);
    observe(times, 5, {.num_rows = 2, .num_seqs = 2, .ms = {10, 1, 0}});
    CHECK(times.sample_ms(2, false) == 1);
    CHECK(times.sample_ms(2, true) == 3);
}

TEST_CASE("step times: drafting by number of sequences, else by the curve and what it was worth lately") {
    StepTimes times;
    CHECK(times.draft_ms(2, kDraftCurve) == 2);
    CHECK(times.draft_ms(2, {}) == 0);
    observe(times, 5, {.num_rows = 6, .num_seqs = 2, .verifies = true, .drafts = true, .ms = {10, 3, 7}});
    CHECK(times.draft_ms(2, kDraftCurve) == 7);
    CHECK(times.draft_ms(5, kDraftCurve) == doctest::Approx(5 * 3.5));
    CHECK(times.draft_ms(5, {}) == 7);
    observe(times, 5, {.num_rows = 2, .num_seqs = 2, .ms = {10, 1, 0}});
    CHECK(times.draft_ms(2, kDraftCurve) == 7);  // steps without drafts say nothing about drafting
}

TEST_CASE("step times: what has not been seen for long is forgotten") {
    StepTimes times;
    observe(times, 20, {.num_rows = 4, .num_seqs = 1, .verifies = true, .drafts = true, .ms = {16, 3, 500}});
    const DecodeStep other{.num_rows = 1, .num_seqs = 1, .ms = {10, 1, 0}};
    observe(times, StepTimes::kMaxAge, other);
    CHECK(times.draft_ms(1, kDraftCurve) == 500);
    observe(times, 1, other);
    CHECK(times.draft_ms(1, kDraftCurve) == 1);
    CHECK(times.draft_ms(1, {}) == 0);
    CHECK(times.ms_per_row(kCurve) == 0.0);
    observe(times, 4, {.num_rows = 4, .num_seqs = 1, .verifies = true, .drafts = true, .ms = {12, 3, 5}});
    CHECK(times.draft_ms(1, kDraftCurve) == 1);  // the old ones do not count as samples either
    observe(times, 1, {.num_rows = 4, .num_seqs = 1, .verifies = true, .drafts = true, .ms = {12, 3, 5}});
    CHECK(times.draft_ms(1, kDraftCurve) == 5);
}

TEST_CASE("draft calibration: judged drafts only, in the bin of their confidence") {
    DraftCalibration calibration(3);
    const std::vector<float> confidences{0.9F, 0.5F, 0.2F};
    const std::vector<int32_t> drafts{7, 8, 9};
    calibration.observe(confidences, drafts, 3, std::vector<int32_t>{7, 5});  // the second was wrong
    calibration.observe(confidences, drafts, 3, std::vector<int32_t>{7, 8});  // a text that ends with a right draft
    calibration.observe(confidences, drafts, 1, std::vector<int32_t>{7, 8});  // only the first was verified
    calibration.observe(confidences, drafts, 3, std::vector<int32_t>{7, 8, 9, 1});
    calibration.observe({}, {}, 0, std::vector<int32_t>{1});
    const auto sum_at = [](const std::vector<int64_t>& values, int64_t k) {
        const auto begin = values.begin() + k * DraftCalibration::kNumBins;
        return std::accumulate(begin, begin + DraftCalibration::kNumBins, int64_t{0});
    };
    CHECK(sum_at(calibration.counts(), 0) == 4);
    CHECK(sum_at(calibration.counts(), 1) == 3);
    CHECK(sum_at(calibration.counts(), 2) == 1);
    CHECK(sum_at(calibration.accepted(), 0) == 4);
    CHECK(sum_at(calibration.accepted(), 1) == 2);
    CHECK(sum_at(calibration.accepted(), 2) == 1);
    const auto bin = static_cast<size_t>((std::log(9.0) + 10) * 8);  // log-odds of 0.9
    CHECK(calibration.counts()[bin] == 4);
    CHECK(calibration.confidence_sums()[bin] == doctest::Approx(3.6));
    CHECK(calibration.counts()[DraftCalibration::kNumBins + 80] == 3);  // 0.5 begins the upper half
}

TEST_CASE("draft calibration: certainty of both kinds has a bin") {
    DraftCalibration calibration(2);
    calibration.observe(std::vector<float>{1.0F, 0.0F}, std::vector<int32_t>{1, 2}, 2, std::vector<int32_t>{1, 3});
    CHECK(calibration.counts()[DraftCalibration::kNumBins - 1] == 1);
    CHECK(calibration.counts()[DraftCalibration::kNumBins] == 1);
}
