// Modelled throughput of scheduled drafts against drafts off and all drafts verified.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "draft_simulator.hpp"

using namespace deepinfer;
using deepinfer::testing::DraftMode;
using deepinfer::testing::DraftSimulator;
using deepinfer::testing::Workload;

namespace {

// Sizes 1, 2, 4, 8, 16, ... 1536 as graphs have them. A step of n rows takes base + slope * n, or the roof if longer.
CostCurve curve_of(double base, double slope, double roof_slope) {
    std::vector<CostPoint> points;
    for (int64_t size = 1; size <= 1536; size += size < 8 ? size : 8) {
        const auto rows = static_cast<double>(size);
        points.push_back({size, std::max(base + slope * rows, roof_slope * rows)});
    }
    return CostCurve(points);
}

const std::vector<CostCurve> kCurves = {
    curve_of(10, 0, 0),        // memory-bound
    curve_of(10, 0.005, 0),    // nearly so
    curve_of(10, 0.05, 0),     // in between
    curve_of(10, 0, 0.0625),   // a knee at 160 rows
    curve_of(10, 0, 1),        // a knee at 10 rows
    curve_of(1, 0.2, 0),       // a CPU
    curve_of(0.001, 0.1, 0.1)  // compute-bound
};

double throughput(const Workload& workload, DraftMode mode) {
    DraftSimulator simulator(workload, mode);
    simulator.run(500 + 4000 / workload.num_seqs);
    if (mode == DraftMode::kScheduled) {
        const SchedulerStats stats = simulator.scheduler().stats();
        CHECK(stats.num_draft_probes * DraftPolicy::kProbeInterval <= stats.num_decode_steps);
    }
    return simulator.tokens_per_ms();
}

}  // namespace

TEST_CASE("drafts: scheduled ones give at least 98% of the better of off and all, on every curve and batch") {
    double worst = 1e9;
    double sum = 0.0;
    int count = 0;
    for (size_t curve = 0; curve < kCurves.size(); ++curve) {
        for (const int64_t num_seqs : {1, 2, 4, 16, 64, 256}) {
            for (const double confidence : {0.2, 0.5, 0.7, 0.9}) {
                const double draft_part = count % 2 == 0 ? 0.05 : 0.25;
                Workload workload{.num_seqs = num_seqs,
                                  .confidence = confidence,
                                  .honesty = count % 3 == 0 ? 0.7 : 1.0,
                                  .step_curve = kCurves[curve]};
                workload.draft_curve = CostCurve({{num_seqs, draft_part * kCurves[curve].ms(num_seqs)}});
                const double off = throughput(workload, DraftMode::kOff);
                const double all = throughput(workload, DraftMode::kAll);
                const double scheduled = throughput(workload, DraftMode::kScheduled);
                CAPTURE(curve);
                CAPTURE(num_seqs);
                CAPTURE(confidence);
                CAPTURE(off);
                CAPTURE(all);
                CHECK(scheduled >= 0.98 * std::max(off, all));
                worst = std::min(worst, scheduled / std::max(off, all));
                sum += scheduled / std::max(off, all);
                ++count;
            }
        }
    }
    MESSAGE("scheduled / better of off and all: worst " << worst << ", mean " << sum / count);
    CHECK(sum / count > 1.02);
}

TEST_CASE("drafts: with corrections on, curves that are wrong still give at least 98%") {
    double worst = 1e9;
    int num_off = 0;
    for (const size_t curve : {1, 2, 4, 5, 6}) {
        for (const int64_t num_seqs : {1, 16, 128}) {
            for (const double draft_error : {0.3, 1.0, 4.0}) {
                Workload workload{.num_seqs = num_seqs,
                                  .confidence = 0.55,
                                  .step_curve = kCurves[curve],
                                  .observes = true,
                                  .draft_error = draft_error,
                                  .ms_per_row = num_seqs == 16 ? 0.05 : 0.0,
                                  .sample_ms = draft_error == 1.0 ? 0.02 : 0.0};
                workload.draft_curve = CostCurve({{num_seqs, 0.15 * kCurves[curve].ms(num_seqs)}});
                const double off = throughput(workload, DraftMode::kOff);
                const double all = throughput(workload, DraftMode::kAll);
                const double scheduled = throughput(workload, DraftMode::kScheduled);
                CAPTURE(curve);
                CAPTURE(num_seqs);
                CAPTURE(draft_error);
                CAPTURE(off);
                CAPTURE(all);
                CHECK(scheduled >= 0.98 * std::max(off, all));
                worst = std::min(worst, scheduled / std::max(off, all));
                num_off += off > all;
            }
        }
    }
    MESSAGE("corrected / better of off and all: worst " << worst << "; off was the better one " << num_off << " times");
    CHECK(num_off > 10);
}

TEST_CASE("drafts: a guess in a unit of its own gives at least 98% of off, and of all where its shape is right") {
    const CostCurve& guess = kCurves[5];
    double worst = 1e9;
    int num_gains = 0;
    for (size_t curve = 0; curve < kCurves.size(); ++curve) {
        for (const double unit : {1e-3, 50.0}) {
            for (const int64_t num_seqs : {1, 16}) {
                for (const double confidence : {0.4, 0.8}) {
                    Workload workload{.num_seqs = num_seqs,
                                      .confidence = confidence,
                                      .step_curve = kCurves[curve],
                                      .observes = true,
                                      .sample_ms = 0.02};
                    workload.draft_curve = CostCurve({{num_seqs, 0.2 * kCurves[curve].ms(num_seqs)}});
                    const double off = throughput(workload, DraftMode::kOff);
                    const double all = throughput(workload, DraftMode::kAll);
                    std::vector<CostPoint> points = guess.points();
                    for (CostPoint& point : points) point.ms *= unit;
                    workload.step_guess = CostCurve(points);
                    workload.draft_guess = CostCurve({{num_seqs, 0.3 * workload.step_guess.ms(num_seqs)}});
                    DraftSimulator simulator(workload, DraftMode::kScheduled);
                    simulator.run(StepTimes::kPartSamples + StepTimes::kDraftSteps + 2);  // to learn what steps take
                    simulator.run(500 + 4000 / num_seqs);
                    const double scheduled = simulator.tokens_per_ms();
                    CAPTURE(curve);
                    CAPTURE(unit);
                    CAPTURE(num_seqs);
                    CAPTURE(confidence);
                    CAPTURE(off);
                    CAPTURE(all);
                    CHECK(scheduled >= 0.98 * off);
                    if (curve == 5) CHECK(scheduled >= 0.98 * all);
                    worst = std::min(worst, scheduled / off);
                    num_gains += scheduled > 1.2 * off;
                }
            }
        }
    }
    MESSAGE("guessed / off: worst " << worst << "; a gain of a fifth and more " << num_gains << " times");
    CHECK(num_gains > 30);
}

TEST_CASE("drafts: they come back when they begin to pay") {
    for (const int64_t num_seqs : {4, 64}) {
        Workload workload{.num_seqs = num_seqs, .confidence = 0.05, .spread = 0.1, .step_curve = kCurves[4]};
        workload.draft_curve = CostCurve({{num_seqs, 1.0}});
        if (num_seqs == 64) workload.step_curve = kCurves[2];
        DraftSimulator simulator(workload, DraftMode::kScheduled);
        simulator.run(1000);
        const int64_t num_undrafted = simulator.scheduler().stats().num_undrafted_steps;
        CHECK(num_undrafted > 800);
        simulator.set_confidence(0.95);
        simulator.run(4000);
        CHECK(simulator.scheduler().stats().num_undrafted_steps - num_undrafted < 2500);
        simulator.run(500);
        CHECK(simulator.tokens_per_ms() > 1.5 * static_cast<double>(num_seqs) / workload.step_curve.ms(num_seqs));
    }
}
