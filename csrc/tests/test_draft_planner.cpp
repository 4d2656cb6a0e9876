// Tests of DraftPlanner: what may, and what must not, decide about a draft.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "core/draft_planner.hpp"

using namespace deepinfer;

namespace {

constexpr int64_t kNumDrafts = 4;

SchedulerConfig planner_config(bool varlen) {
    return {.num_blocks = 64,
            .block_size = 16,
            .num_state_slots = 16,
            .max_num_seqs = 16,
            .max_num_batched_tokens = 64,
            .max_prefill_chunk = 64,
            .max_model_len = 256,
            .num_drafts = kNumDrafts,
            .varlen = varlen};
}

using Confidences = std::vector<std::vector<float>>;  // of each sequence

// Sequences whose drafts before the newest had the confidences `old`, and the newest `fresh`.
struct Batch {
    Batch(const Confidences& old, const Confidences& fresh) {
        const std::vector<int32_t> ids(kNumDrafts, 5);
        for (size_t i = 0; i < fresh.size(); ++i) {
            const auto seq_id = static_cast<int64_t>(i);
            owned.push_back(std::make_unique<Sequence>(SequenceSpec{seq_id, {1}, 200, {}}, 201));
            owned.back()->drafts().give(ids, old[i]);
            owned.back()->drafts().advance();
            owned.back()->drafts().give(ids, fresh[i]);
            seqs.push_back(owned.back().get());
        }
        caps.assign(fresh.size(), kNumDrafts);
    }

    std::vector<std::unique_ptr<Sequence>> owned;
    std::vector<Sequence*> seqs;
    std::vector<int64_t> caps;
};

Confidences random_confidences(std::mt19937& random, size_t num_seqs) {
    std::uniform_real_distribution<float> unit(0.3F, 1.0F);
    Confidences all(num_seqs, std::vector<float>(kNumDrafts));
    for (auto& seq : all) std::generate(seq.begin(), seq.end(), [&] { return unit(random); });
    return all;
}

DraftPlanner::Decision plan(const Batch& batch, const CostCurve& curve, int64_t max_rows) {
    DraftPlanner planner(planner_config(true));
    planner.set_cost_curves(curve, {});
    return planner.plan_decode(batch.seqs, batch.caps, max_rows);
}

}  // namespace

TEST_CASE("planner: without varlen or a curve all drafts are verified, as far as the rows go") {
    std::mt19937 random(1);
    const Batch batch({{1, 1, 1, 1}, {1, 1, 1, 1}}, {{.5F, .5F, .5F, .5F}, {.9F, .5F, .9F, .9F}});
    for (const bool varlen : {false, true}) {
        DraftPlanner planner(planner_config(varlen));
        if (!varlen) planner.set_cost_curves(CostCurve({{1, 1}, {64, 100}}), {});
        const auto decision = planner.plan_decode(batch.seqs, batch.caps, 64);
        CHECK(decision.num_drafts == std::vector<int64_t>{4, 4});
        CHECK(decision.makes_drafts);
        CHECK(planner.plan_decode(batch.seqs, batch.caps, 7).num_drafts == std::vector<int64_t>{1, 4});
        CHECK(planner.plan_decode(batch.seqs, batch.caps, 2).num_drafts == std::vector<int64_t>{0, 0});
        CHECK(planner.drafts_after_prefill(2));
    }
}

TEST_CASE("planner: with a guess, both kinds of steps come first, and again when they have not been seen for long") {
    const Batch batch({{.9F, .9F, .9F, .9F}}, {{.9F, .9F, .9F, .9F}});
    DraftPlanner planner(planner_config(true));
    planner.set_cost_curves(CostCurve({{1, 1}, {5, 5}}), CostCurve({{1, 1}}), true);  // wrong: drafts would never pay
    double verify_ms = 1;
    int64_t num_plain = 0;
    const auto run = [&](int64_t num_steps) {
        num_plain = 0;
        for (int64_t i = 0; i < num_steps; ++i) {
            const auto decision = planner.plan_decode(batch.seqs, batch.caps, 64);
            CHECK(decision.makes_drafts == planner.drafts_after_prefill(1));
            const int64_t num_rows = 1 + decision.num_drafts[0];
            num_plain += num_rows == 1;
            const double ms = num_rows > 1 ? verify_ms : 1;
            planner.observe({.num_rows = num_rows,
                             .num_seqs = 1,
                             .verifies = num_rows > 1,
                             .drafts = decision.makes_drafts,
                             .ms = {ms, 0, .1}});
        }
    };
    run(StepTimes::kPartSamples);
    CHECK(num_plain == StepTimes::kPartSamples);
    run(StepTimes::kGuessAge);
    CHECK(num_plain == 0);
    run(StepTimes::kGuessAge);
    CHECK(num_plain == StepTimes::kPartSamples);

    planner.set_cost_curves(CostCurve({{1, 1}, {5, 1.1}}), CostCurve({{1, 1}}), true);  // wrong the other way
    verify_ms = 10;
    run(StepTimes::kPartSamples + StepTimes::kDraftSteps);
    CHECK(num_plain == StepTimes::kPartSamples);
    run(10);
    CHECK(num_plain == 10);
}

TEST_CASE("planner: the total depends on old confidences only, and no draft on itself or later ones") {
    std::mt19937 random(3);
    std::vector<CostPoint> points;
    for (int64_t rows = 1; rows <= 64; ++rows) points.push_back({rows, 10 + 1.2 * static_cast<double>(rows)});
    const CostCurve curve(points);
    int num_partial = 0;
    for (int i = 0; i < 2000; ++i) {
        const size_t num_seqs = 1 + random() % 8;
        const Confidences old = random_confidences(random, num_seqs);
        Confidences fresh = random_confidences(random, num_seqs);
        const int64_t max_rows = static_cast<int64_t>(num_seqs + random() % 30);
        const auto before = plan(Batch(old, fresh), curve, max_rows);
        const size_t seq = random() % num_seqs;
        const size_t changed = random() % kNumDrafts;
        fresh[seq][changed] = static_cast<float>(random() % 1001) / 1000.0F;
        const auto after = plan(Batch(old, fresh), curve, max_rows);
        const auto sum = [](const auto& decision) {
            return std::reduce(decision.num_drafts.begin(), decision.num_drafts.end());
        };
        REQUIRE(sum(before) == sum(after));
        REQUIRE(before.makes_drafts == after.makes_drafts);
        // confidence `changed` may depend on the drafts before it: those keep their fate.
        const auto fixed = static_cast<int64_t>(changed);
        REQUIRE(std::min(before.num_drafts[seq], fixed) == std::min(after.num_drafts[seq], fixed));
        num_partial += sum(before) > 0 && sum(before) < kNumDrafts * static_cast<int64_t>(num_seqs);
    }
    CHECK(num_partial > 500);
}

TEST_CASE("planner: every sequence keeps its cap, and the rows their limit") {
    std::mt19937 random(5);
    for (int i = 0; i < 2000; ++i) {
        const size_t num_seqs = 1 + random() % 8;
        Batch batch(random_confidences(random, num_seqs), random_confidences(random, num_seqs));
        for (int64_t& cap : batch.caps) cap = static_cast<int64_t>(random() % (kNumDrafts + 1));
        const auto max_rows = static_cast<int64_t>(num_seqs + random() % 20);
        const double slope = static_cast<double>(random() % 100) / 100.0;
        const auto decision =
            plan(batch, CostCurve({{4, 4 + slope}, {16, 4 + 4 * slope}, {64, 4 + 16 * slope}}), max_rows);
        int64_t num_rows = static_cast<int64_t>(num_seqs);
        for (size_t seq = 0; seq < num_seqs; ++seq) {
            REQUIRE(decision.num_drafts[seq] >= 0);
            REQUIRE(decision.num_drafts[seq] <= batch.caps[seq]);
            num_rows += decision.num_drafts[seq];
        }
        REQUIRE(num_rows <= max_rows);
    }
}
