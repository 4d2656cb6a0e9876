// Tests of two steps in flight: sequences that end from outside, and steps that are given up.
#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

#include "core/scheduler.hpp"
#include "draft_steps.hpp"

using namespace deepinfer;
using namespace deepinfer::testing;

TEST_CASE("overlap: aborted in flight, its id used again at once") {
    Scheduler scheduler(draft_config());
    begin(scheduler, {spec_of(0, 3, 20), spec_of(1, 3, 20)});
    const auto [first, second] = plan_two(scheduler);
    CHECK(scheduler.abort(0));
    scheduler.add(spec_of(0, 2, 20));
    scheduler.check();
    const StepUpdate update = book(scheduler, first, {4, 4}, {0, 1, 2}, {1, 1, 1, 2, 2, 2});
    CHECK(update.seq_ids == Ids{1});
    CHECK(book(scheduler, second, {3, 2}, {0, 1, 2}).seq_ids == Ids{1});
    CHECK(scheduler.token_ids(0) == Tokens{1, 1});
    CHECK(plan_next(scheduler).seq_ids == Ids{0});
}

TEST_CASE("overlap: a stop string found while the next step is in flight") {
    Scheduler scheduler(draft_config());
    begin(scheduler, {spec_of(0, 3, 20)});
    const auto [first, second] = plan_two(scheduler);
    book(scheduler, first, {6, 7, 4}, {0, 3}, {1, 1, 1});
    CHECK(scheduler.finish(0, 2));
    scheduler.check();
    CHECK(scheduler.num_free_blocks() == 16);
    CHECK(book(scheduler, second, {1, 1}, {0, 2}).seq_ids.empty());
    const SchedulerStats stats = scheduler.stats();
    CHECK(stats.num_generated_tokens == 2);
    CHECK(stats.num_drafts_accepted == 1);
    CHECK(stats.num_verify_tokens == 1);
    CHECK(stats.num_finished_external == 1);
    CHECK(scheduler.save_prefix(0) >= 0);
    CHECK(scheduler.num_saved_blocks() == 3);  // prompt and two tokens
    scheduler.check();
}

TEST_CASE("overlap: steps are discarded newest first, and what they held is free again") {
    Scheduler scheduler(draft_config());
    begin(scheduler, {spec_of(0, 3, 20)});
    const StepPlan first = plan_next(scheduler);
    const int64_t num_free = scheduler.num_free_blocks();
    const StepPlan second = plan_next(scheduler);
    CHECK(scheduler.num_free_blocks() < num_free);
    CHECK_THROWS_WITH_AS(scheduler.discard(first.step_id), "step_id is 1, but step 2 is to be discarded first",
                         std::invalid_argument);
    scheduler.discard(second.step_id);
    scheduler.check();
    CHECK(scheduler.num_free_blocks() == num_free);
    const StepPlan again = plan_next(scheduler);
    CHECK(again.context_lens == second.context_lens);
    scheduler.discard(again.step_id);
    scheduler.discard(first.step_id);
    scheduler.check();
    CHECK(plan_next(scheduler).token_ids == first.token_ids);
    CHECK(scheduler.stats().num_decode_steps == 2);  // the linked ones were never settled
}

TEST_CASE("overlap: a copy belongs to the step that makes it, and comes again with the next if that is discarded") {
    SchedulerConfig config = draft_config();
    config.replay_tokens = 1;
    Scheduler scheduler(config);
    begin(scheduler, {spec_of(0, 5, 20)});
    const StepPlan first = plan_next(scheduler);
    SequenceSpec spec = spec_of(1, 9, 20);
    spec.prefix_id = scheduler.save_prefix(0);
    scheduler.add(spec);
    const StepPlan second = plan_next(scheduler);
    CHECK(second.kind == StepKind::kPrefill);
    CHECK(second.block_copies.size() == 2);
    book(scheduler, first, {4}, {0, 1}, {1, 1, 1});
    scheduler.discard(second.step_id);
    scheduler.check();
    const StepPlan again = plan_next(scheduler);
    CHECK(again.seq_ids == Ids{1});
    CHECK(again.block_copies == second.block_copies);
    book(scheduler, again, {3}, {0, 1});
    CHECK(plan_next(scheduler).block_copies.empty());
}

TEST_CASE("overlap: a settled step can be discarded, and comes again as it was") {
    Scheduler scheduler(draft_config());
    begin(scheduler, {spec_of(0, 3, 20)});
    const auto [first, second] = plan_two(scheduler);
    book(scheduler, first, {6, 4}, {0, 2}, {1, 2, 3});
    const StepPlan exact = *scheduler.settled(second.step_id);
    scheduler.discard(second.step_id);
    scheduler.check();
    CHECK(plan_next(scheduler).token_ids == exact.token_ids);
}

TEST_CASE("overlap: a wrong outcome changes nothing") {
    Scheduler scheduler(draft_config());
    begin(scheduler, {spec_of(0, 3, 20), spec_of(1, 3, 20)});
    const StepPlan first = plan_next(scheduler);
    plan_next(scheduler);
    CHECK(scheduler.abort(0));
    CHECK_THROWS_WITH_AS(book(scheduler, first, {4, 4, 4, 4, 4, 4}, {0, 5, 6}), "sequence 0 got 5 tokens of 4 rows",
                         std::invalid_argument);
    scheduler.check();
    CHECK(book(scheduler, first, {4}, {0, 0, 1}).seq_ids == Ids{1});
}
