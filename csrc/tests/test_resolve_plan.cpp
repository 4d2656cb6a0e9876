// Tests of resolve_plan on plans made by hand.
#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/resolve_plan.hpp"

using namespace deepinfer;

namespace {

using Tokens = std::vector<int32_t>;

constexpr size_t kNumDrafts = 3;

// A decode step of `tables.size()` sequences, ids 10, 11, ..., with the given rows (newest token and drafts).
StepPlan exact_plan(const std::vector<Tokens>& rows, const Tokens& context_lens) {
    StepPlan plan;
    plan.step_id = 7;
    plan.kind = StepKind::kDecode;
    plan.num_lookback = 3;
    plan.rate_factors.assign(kNumDrafts, 1.0F);
    for (size_t i = 0; i < rows.size(); ++i) {
        plan.seq_ids.push_back(10 + static_cast<int64_t>(i));
        plan.context_lens.push_back(context_lens[i]);
        plan.output_indices.push_back(context_lens[i] - 20);
        plan.num_drafts.push_back(static_cast<int32_t>(rows[i].size()) - 1);
        plan.draft_caps.push_back(kNumDrafts);
        plan.max_lens.push_back(1000);
        plan.remap.push_back(-1);
        for (size_t k = 0; k < rows[i].size(); ++k) {
            plan.token_ids.push_back(rows[i][k]);
            plan.positions.push_back(context_lens[i] + static_cast<int32_t>(k));
        }
        plan.cu_seqlens_q.push_back(static_cast<int32_t>(plan.token_ids.size()));
        for (int32_t back = 1; back <= plan.num_lookback; ++back) {
            plan.lookback_ids.push_back(900 + context_lens[i] - back);
        }
        plan.num_draft_rows += plan.num_drafts.back();
    }
    return plan;
}

// A plan behind `previous` of the sequences in remap (-1: one that is not in it, with the rows given), in which the
// matched ones stand at their bounds.
StepPlan linked_plan(const StepPlan& previous, const Tokens& remap, const std::vector<Tokens>& fresh_rows,
                     int32_t num_draft_rows) {
    std::vector<Tokens> rows;
    Tokens context_lens;
    size_t num_fresh = 0;
    for (const int32_t j : remap) {
        rows.push_back(j < 0 ? fresh_rows[num_fresh++] : Tokens{0});
        context_lens.push_back(j < 0 ? 50 : previous.context_lens[j] + 1 + previous.num_drafts[j]);
    }
    StepPlan plan = exact_plan(rows, context_lens);
    plan.step_id = 8;
    plan.previous_step_id = previous.step_id;
    plan.remap = remap;
    plan.num_draft_rows = num_draft_rows;
    return plan;
}

}  // namespace

TEST_CASE("resolve: a text goes on behind the tokens it got, with its look-back and its drafts") {
    const StepPlan previous = exact_plan({{1, 2, 3}, {4, 5, 6, 7}, {8}}, {20, 30, 40});
    const StepPlan plan = linked_plan(previous, {0, 1, 2}, {}, 9);
    const Tokens tokens{2, 101, 5, 6, 7, 102, 103};
    const Tokens cu_tokens{0, 2, 6, 7};
    const Tokens drafts{201, 202, 203, 204, -1, 205, 206, 207, -1};
    const StepPlan exact = resolve_plan(plan, previous, {tokens, cu_tokens, {drafts, {}}});
    CHECK_FALSE(exact.is_linked());
    CHECK(exact.step_id == 8);
    CHECK(exact.seq_ids == plan.seq_ids);
    CHECK(exact.context_lens == Tokens{22, 34, 41});
    CHECK(exact.output_indices == Tokens{2, 14, 21});
    CHECK(exact.num_drafts == Tokens{3, 1, 2});
    CHECK(exact.cu_seqlens_q == Tokens{0, 4, 6, 9});
    CHECK(exact.token_ids == Tokens{101, 201, 202, 203, 102, 204, 103, 206, 207});
    CHECK(exact.positions == Tokens{22, 23, 24, 25, 34, 35, 41, 42, 43});
    CHECK(exact.lookback_ids == Tokens{2, 1, 919, 7, 6, 5, 8, 939, 938});
    CHECK(exact.num_draft_rows == 6);
    CHECK(exact.remap == Tokens{-1, -1, -1});
}

TEST_CASE("resolve: a row without a token repeats the previous one") {
    const StepPlan previous = exact_plan({{1, 2, 3}, {4}}, {20, 30});
    const StepPlan plan = linked_plan(previous, {0, 1}, {}, 6);
    const Tokens tokens{9};
    const Tokens cu_tokens{0, 0, 1};
    const Tokens drafts{7, 7, 7, 6, 6, 6};
    const StepPlan exact = resolve_plan(plan, previous, {tokens, cu_tokens, {drafts, {}}});
    CHECK(exact.context_lens == Tokens{20, 31});
    CHECK(exact.output_indices == Tokens{0, 11});
    CHECK(exact.token_ids == Tokens{1, 9, 6, 6, 6});
    CHECK(exact.positions == Tokens{20, 31, 32, 33, 34});
    CHECK(exact.lookback_ids == Tokens{919, 918, 917, 4, 929, 928});
}

TEST_CASE("resolve: rows are matched by remap, and those that are not stay as planned") {
    const StepPlan previous = exact_plan({{1}, {2}, {3}}, {20, 30, 40});
    const StepPlan plan = linked_plan(previous, {2, -1, 0}, {{60, 61}}, 3);
    const Tokens tokens{101, 102, 103};
    const Tokens cu_tokens{0, 1, 2, 3};
    const Tokens drafts{1, 1, 1, 2, 2, 2, 3, 3, 3};
    const std::vector<float> confidences{0.5F, 0.9F, 0.9F, 1, 1, 1, 0.6F, 0.1F, 1};
    const StepPlan exact = resolve_plan(plan, previous, {tokens, cu_tokens, {drafts, confidences}});
    CHECK(exact.num_drafts == Tokens{1, 1, 1});  // two rows for 0.6, 0.5; the third is the other sequence's
    CHECK(exact.token_ids == Tokens{103, 3, 60, 61, 101, 1});
    CHECK(exact.positions == Tokens{41, 42, 50, 51, 21, 22});
}

TEST_CASE("resolve: rates decide when the rows are too few; ties go to the earlier") {
    const StepPlan previous = exact_plan({{1}, {2}}, {20, 30});
    const Tokens tokens{101, 102};
    const Tokens cu_tokens{0, 1, 2};
    const Tokens drafts{1, 1, 1, 2, 2, 2};
    const auto split = [&](std::vector<float> confidences, int32_t num_rows, std::vector<float> factors) {
        StepPlan plan = linked_plan(previous, {0, 1}, {}, num_rows);
        plan.rate_factors = std::move(factors);
        return resolve_plan(plan, previous, {tokens, cu_tokens, {drafts, confidences}}).num_drafts;
    };
    CHECK(split({}, 4, {1, 1, 1}) == Tokens{3, 1});
    CHECK(split({0.5F, 1, 1, 0.9F, 0.9F, 0.5F}, 3, {1, 1, 1}) == Tokens{1, 2});
    CHECK(split({1, 0.5F, 1, 0.4F, 1, 1}, 2, {1, 1, 1}) == Tokens{2, 0});
    CHECK(split({1, 0.5F, 1, 0.4F, 1, 1}, 2, {1, 0.7F, 1}) == Tokens{1, 1});
    CHECK(split({0.5F, 1, 1, 0.9F, 0.9F, 0.5F}, 3, {2, 2, 2}) == Tokens{3, 0});  // at most 1: a tie
    CHECK(split({0.5F, 0.5F, 1, 0.4F, 1, 1}, 2, {1, 9, 9}) == Tokens{2, 0});     // at most the rate before
    CHECK(split({NAN, 1, 1, 7, 1, -1}, 3, {1, 1, 1}) == Tokens{1, 2});
    CHECK(split({0.5F, 1, 1, 0.9F, 0.9F, 0.5F}, 0, {1, 1, 1}) == Tokens{0, 0});
}

TEST_CASE("resolve: caps, the end of the text and missing drafts leave rows unused") {
    const StepPlan previous = exact_plan({{1}, {2}, {3, 4}}, {20, 30, 40});
    StepPlan plan = linked_plan(previous, {0, 1, 2}, {}, 9);
    plan.draft_caps = {1, 3, 3};
    plan.max_lens = {1000, 34, 43};
    const Tokens tokens{101, 102, 4, 103};
    const Tokens cu_tokens{0, 1, 2, 4};
    const Tokens drafts{1, 1, 1, 2, 2, 2, 3, 3, 3};
    StepPlan exact = resolve_plan(plan, previous, {tokens, cu_tokens, {drafts, {}}});
    CHECK(exact.num_drafts == Tokens{1, 1, 0});
    CHECK(exact.positions == Tokens{21, 22, 31, 32, 42});
    exact = resolve_plan(plan, previous, {tokens, cu_tokens, {}});
    CHECK(exact.num_drafts == Tokens{0, 0, 0});
    CHECK(exact.num_tokens() == 3);
}

TEST_CASE("resolve: what does not belong together is refused") {
    const StepPlan previous = exact_plan({{1}, {2}}, {20, 30});
    const StepPlan plan = linked_plan(previous, {0, 1}, {}, 2);
    const Tokens tokens{101, 102};
    const Tokens cu_tokens{0, 1, 2};
    const auto refused = [&](const StepPlan& plan, const StepPlan& previous, const StepOutcome& outcome,
                             const char* error) {
        CHECK_THROWS_WITH_AS(resolve_plan(plan, previous, outcome), error, std::invalid_argument);
    };
    refused(previous, previous, {tokens, cu_tokens, {}}, "step 7 has an exact plan already");
    refused(plan, plan, {tokens, cu_tokens, {}},
            "step 8 goes on from decode step 7; an exact plan of it is needed, not a linked one of step 8");
    StepPlan prefill = previous;
    prefill.kind = StepKind::kPrefill;
    refused(plan, prefill, {tokens, cu_tokens, {}},
            "step 8 goes on from decode step 7; an exact plan of it is needed, not one of step 7");
    refused(plan, previous, {tokens, Tokens{0, 1}, {}}, "cu_tokens has 2 entries for 2 tokens; step 7 has 2 sequences");
    refused(plan, previous, {tokens, Tokens{0, 2, 2}, {}}, "sequence 10 got 2 tokens of 1 rows");
    refused(plan, previous, {tokens, cu_tokens, {tokens, {}}},
            "there are 2 draft ids and 0 confidences; 2 sequences with 3 drafts each need 6");
}
