// Tests of drafts in Scheduler: rows, limits, memory, statistics.
#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

#include "core/scheduler.hpp"
#include "draft_steps.hpp"

using namespace deepinfer;
using namespace deepinfer::testing;

TEST_CASE("drafts: rows of the newest token and its drafts, several tokens taken, blocks of the rest freed") {
    Scheduler scheduler(draft_config());
    scheduler.add(spec_of(0, 3, 20));
    StepPlan plan = *scheduler.schedule();
    CHECK(plan.make_drafts);
    CHECK(plan.num_drafts == Tokens{0});
    book(scheduler, plan, {5}, {0, 1}, {6, 7, 8});
    plan = *scheduler.schedule();
    CHECK(plan.token_ids == Tokens{5, 6, 7, 8});
    CHECK(plan.positions == Tokens{3, 4, 5, 6});
    CHECK(plan.cu_seqlens_q == Tokens{0, 4});
    CHECK(plan.num_drafts == Tokens{3});
    CHECK(plan.output_indices == Tokens{1});
    CHECK(plan.lookback_ids == Tokens{1, 1});
    CHECK(plan.block_ids.size() == 4);
    const StepUpdate update = book(scheduler, plan, {6, 9}, {0, 2}, {7, -1, 4});
    CHECK(update.tokens == Tokens{6, 9});
    CHECK(scheduler.num_free_blocks() == 16 - 3);
    plan = *scheduler.schedule();
    CHECK(plan.token_ids == Tokens{9, 7});
    CHECK(plan.context_lens == Tokens{5});
    CHECK(plan.output_indices == Tokens{3});
    CHECK_THROWS_WITH_AS(book(scheduler, plan, {1, 2, 3}, {0, 3}), "sequence 0 got 3 tokens; this step gives it 1 to 2",
                         std::invalid_argument);
    book(scheduler, plan, {2}, {0, 1});
    CHECK(scheduler.schedule()->token_ids == Tokens{2});
    const SchedulerStats stats = scheduler.stats();
    CHECK(stats.num_verify_steps == 2);
    CHECK(stats.num_verify_tokens == 3);
    CHECK(stats.num_drafts_verified == 4);
    CHECK(stats.num_drafts_accepted == 1);
    CHECK(stats.verified_at == Ids{2, 1, 1});
    CHECK(stats.accepted_at == Ids{1, 0, 0});
}

TEST_CASE("drafts: an exact plan is linked to no other, and says what it could verify") {
    Scheduler scheduler(draft_config());
    scheduler.add(spec_of(0, 3, 20));
    scheduler.add(spec_of(1, 3, 4));
    StepPlan plan = *scheduler.schedule();
    CHECK_FALSE(plan.is_linked());
    CHECK(plan.remap == Tokens{-1, -1});
    CHECK(plan.max_lens == Tokens{23, 7});
    CHECK(plan.draft_caps == Tokens{0, 0});
    CHECK(plan.num_draft_rows == 0);
    book(scheduler, plan, {5, 5}, {0, 1, 2}, {6, 7, 8, 6, -1, -1});
    plan = *scheduler.schedule();
    CHECK_FALSE(plan.is_linked());
    CHECK(plan.remap == Tokens{-1, -1});
    CHECK(plan.draft_caps == Tokens{3, 1});
    CHECK(plan.num_draft_rows == 4);
    CHECK(plan.rate_factors == std::vector<float>{1, 1, 1});
}

TEST_CASE("drafts: never past the limit of a sequence, nor made when nobody could use them") {
    Scheduler scheduler(draft_config());
    scheduler.add(spec_of(0, 3, 4));
    StepPlan plan = *scheduler.schedule();
    book(scheduler, plan, {5}, {0, 1}, {6, 7, 8});
    plan = *scheduler.schedule();
    CHECK(plan.token_ids == Tokens{5, 6, 7});  // three tokens may come
    CHECK(plan.make_drafts);
    book(scheduler, plan, {9}, {0, 1}, {6, 7, 8});
    plan = *scheduler.schedule();
    CHECK(plan.token_ids == Tokens{9, 6});
    CHECK_FALSE(plan.make_drafts);
    const StepUpdate update = book(scheduler, plan, {6, 2}, {0, 2});
    CHECK(update.finish_reasons == std::vector<FinishReason>{FinishReason::kLength});
    CHECK_FALSE(scheduler.has_unfinished());
}

TEST_CASE("drafts: what stands behind a stop is dropped, and not counted") {
    Scheduler scheduler(draft_config());
    scheduler.add(spec_of(0, 3, 20, {7}));
    book(scheduler, *scheduler.schedule(), {5}, {0, 1}, {6, 7, 8});
    const StepUpdate update = book(scheduler, *scheduler.schedule(), {6, 7, 8, 9}, {0, 4}, {1, 2, 3});
    CHECK(update.tokens == Tokens{6, 7});
    CHECK(update.stop_token_ids == Tokens{7});
    CHECK_FALSE(scheduler.has_unfinished());
    CHECK(scheduler.stats().num_verify_tokens == 2);
    CHECK(scheduler.stats().num_drafts_accepted == 2);
}

TEST_CASE("drafts: a stop token that was a draft is an accepted one, although no token follows") {
    Scheduler scheduler(draft_config());
    scheduler.add(spec_of(0, 3, 20, {7}));
    book(scheduler, *scheduler.schedule(), {5}, {0, 1}, {6, 7, 8});
    book(scheduler, *scheduler.schedule(), {6, 7}, {0, 2});
    CHECK(scheduler.stats().accepted_at == Ids{1, 1, 0});
    CHECK(scheduler.stats().num_verify_tokens == 2);
}

TEST_CASE("drafts: finish takes the tokens that it drops out of the counts") {
    Scheduler scheduler(draft_config());
    scheduler.add(spec_of(0, 3, 20));
    book(scheduler, *scheduler.schedule(), {5}, {0, 1}, {6, 7, 8});
    book(scheduler, *scheduler.schedule(), {6, 7, 8, 9}, {0, 4});
    CHECK(scheduler.finish(0, 2));
    CHECK(scheduler.stats().num_verify_tokens == 1);
    CHECK(scheduler.stats().accepted_at == Ids{1, 0, 0});
    CHECK(scheduler.stats().num_generated_tokens == 2);
}

TEST_CASE("drafts: finish also cuts the counts of what ended by itself in the latest update") {
    Scheduler scheduler(draft_config());
    scheduler.add(spec_of(0, 3, 20, {8}));
    scheduler.add(spec_of(1, 3, 2));
    book(scheduler, *scheduler.schedule(), {5, 5}, {0, 1, 2}, {6, 7, 8, 6, 7, 8});
    book(scheduler, *scheduler.schedule(), {6, 7, 8, 9}, {0, 3, 4}, {1, 2, 3, 4, 5, 6});
    CHECK(scheduler.stats().num_generated_tokens == 6);
    CHECK(scheduler.stats().num_verify_tokens == 3);
    CHECK_THROWS_WITH_AS(scheduler.finish(0, 5), "sequence 0: keep_tokens is 5, but 4 tokens were generated",
                         std::invalid_argument);
    CHECK_FALSE(scheduler.finish(0, 2));
    CHECK_FALSE(scheduler.finish(0, 1));
    CHECK_FALSE(scheduler.finish(1, 1));
    SchedulerStats stats = scheduler.stats();
    CHECK(stats.num_generated_tokens == 3);
    CHECK(stats.num_verify_tokens == 1);
    CHECK(stats.num_drafts_verified == 3);
    CHECK(stats.accepted_at == Ids{1, 0, 0});
    CHECK(stats.num_finished_stop == 0);
    CHECK(stats.num_finished_length == 0);
    CHECK(stats.num_finished_external == 2);
}

TEST_CASE("drafts: what ended is known until the next update, or until its id has a new owner") {
    Scheduler scheduler(draft_config());
    for (const int64_t seq_id : {0, 1, 2}) scheduler.add(spec_of(seq_id, 3, seq_id == 2 ? 9 : 1));
    book(scheduler, *scheduler.schedule(), {5, 5, 5}, {0, 1, 2, 3}, Tokens(9, 6));
    scheduler.add(spec_of(0, 3, 9));
    CHECK(scheduler.finish(0, 0));
    CHECK(scheduler.stats().num_generated_tokens == 3);
    book(scheduler, *scheduler.schedule(), {7}, {0, 1});
    CHECK_FALSE(scheduler.finish(1, 0));
    CHECK(scheduler.stats().num_finished_length == 2);
}

TEST_CASE("drafts: given up before anybody is preempted") {
    SchedulerConfig config = draft_config();
    config.num_blocks = 5;
    Scheduler scheduler(config);
    scheduler.add(spec_of(0, 3, 20));
    scheduler.add(spec_of(1, 3, 20));
    book(scheduler, *scheduler.schedule(), {5, 5}, {0, 1, 2}, {6, 7, 8, 6, 7, 8});
    StepPlan plan = *scheduler.schedule();
    CHECK(plan.num_drafts == Tokens{2, 0});  // one block is free
    CHECK(plan.preempted_seq_ids.empty());
    book(scheduler, plan, {1, 1}, {0, 1, 2}, {6, 7, 8, 6, 7, 8});
    plan = *scheduler.schedule();
    CHECK(plan.preempted_seq_ids == Ids{1});
    CHECK(plan.num_drafts == Tokens{3});
    book(scheduler, plan, {6, 1}, {0, 2});
    CHECK(scheduler.num_waiting() == 1);
}

TEST_CASE("drafts: the token budget cuts drafts before it leaves sequences out") {
    SchedulerConfig config = draft_config();
    config.max_num_batched_tokens = 5;
    config.max_prefill_chunk = 1;
    Scheduler scheduler(config);
    for (int64_t seq_id = 0; seq_id < 4; ++seq_id) scheduler.add(spec_of(seq_id, 1, 20));
    book(scheduler, *scheduler.schedule(), {5, 5, 5, 5}, {0, 1, 2, 3, 4}, Tokens(12, 6));
    const StepPlan plan = *scheduler.schedule();
    CHECK(plan.seq_ids == Ids{0, 1, 2, 3});
    CHECK(plan.num_tokens() == 5);
    CHECK(plan.num_drafts == Tokens{1, 0, 0, 0});
}

TEST_CASE("drafts: forks get their own, in a row behind their parent's") {
    Scheduler scheduler(draft_config());
    SequenceSpec spec = spec_of(0, 3, 20);
    spec.fork_seq_ids = {8, 9};
    scheduler.add(spec);
    const StepPlan first = *scheduler.schedule();
    CHECK(scheduler.abort(8));
    book(scheduler, first, {5, 6, 7}, {0, 3}, {1, -1, -1, 2, 2, 2, 3, 3, -1});
    const StepPlan plan = *scheduler.schedule();
    CHECK(plan.seq_ids == Ids{0, 9});
    CHECK(plan.token_ids == Tokens{5, 1, 7, 3, 3});
    scheduler.check();
    scheduler.discard(plan.step_id);
    scheduler.check();
    CHECK(scheduler.schedule()->token_ids == plan.token_ids);
}

TEST_CASE("drafts: those of a wrong shape are refused, and nothing changes") {
    Scheduler scheduler(draft_config());
    scheduler.add(spec_of(0, 3, 20));
    const StepPlan plan = *scheduler.schedule();
    CHECK_THROWS_WITH_AS(book(scheduler, plan, {5}, {0, 1}, {6, 7}),
                         "draft_ids has 2 entries; the step gives 1 sequences tokens, with 3 drafts each that is 3",
                         std::invalid_argument);
    const std::vector<float> confidences(2, 0.5F);
    const Tokens ids{6, 7, 8};
    CHECK_THROWS_AS(scheduler.update(plan.step_id, Tokens{5}, Tokens{0, 1}, {ids, confidences}), std::invalid_argument);
    scheduler.check();
    book(scheduler, plan, {5}, {0, 1}, ids);
}
