// Tests of two steps in flight: what a plan over another one says, holds, and comes to.
#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

#include "core/scheduler.hpp"
#include "draft_steps.hpp"

using namespace deepinfer;
using namespace deepinfer::testing;

TEST_CASE("overlap: a linked plan stands at the bounds, and is exact when the step before it is booked") {
    Scheduler scheduler(draft_config());
    begin(scheduler, {spec_of(0, 3, 40), spec_of(1, 5, 40)});
    const auto [first, second] = plan_two(scheduler);
    CHECK(second.previous_step_id == first.step_id);
    CHECK(second.remap == Tokens{0, 1});
    CHECK(second.context_lens == Tokens{7, 9});
    CHECK(second.output_indices == Tokens{5, 5});
    CHECK(second.token_ids == Tokens(8, 0));
    CHECK(second.positions == Tokens{7, 8, 9, 10, 9, 10, 11, 12});
    CHECK(second.lookback_ids == Tokens(4, -1));
    CHECK(second.draft_caps == Tokens{3, 3});
    CHECK(second.num_draft_rows == 6);
    CHECK(scheduler.num_free_blocks() == 16 - 6 - 7);  // 11 and 13 tokens
    CHECK_THROWS_WITH_AS(scheduler.settled(second.step_id), "step 2 is not settled: book step 1 first",
                         std::logic_error);
    CHECK_THROWS_WITH_AS(book(scheduler, second, {1, 1}, {0, 1, 2}), "step_id is 2, but step 1 is to be booked first",
                         std::invalid_argument);
    CHECK(scheduler.steps_in_flight() == Ids{1, 2});
    CHECK_THROWS_WITH_AS(scheduler.schedule(),
                         "steps 1 and 2 are in flight: update the first one, or discard the second", std::logic_error);
    book(scheduler, first, {6, 9, 5}, {0, 2, 3}, {1, 2, -1, 3, -1, -1});
    const StepPlan exact = *scheduler.settled(second.step_id);
    CHECK_FALSE(exact.is_linked());
    CHECK(exact.token_ids == Tokens{9, 1, 2, 5, 3});
    CHECK(exact.positions == Tokens{5, 6, 7, 6, 7});
    CHECK(exact.lookback_ids == Tokens{6, 5, 5, 1});
    CHECK(scheduler.num_free_blocks() == 16 - 4 - 4);
    CHECK(scheduler.stats().num_decode_tokens == 8 + 5);
    const StepUpdate update = book(scheduler, second, {1, 2, 4, 8}, {0, 3, 4});
    CHECK(update.tokens == Tokens{1, 2, 4, 8});
    CHECK(scheduler.stats().num_drafts_accepted == 3);
    CHECK_THROWS_WITH_AS(scheduler.settled(second.step_id), "step_id is 2, but no step is in flight",
                         std::invalid_argument);
}

TEST_CASE("overlap: an exact plan is settled from the beginning") {
    Scheduler scheduler(draft_config());
    scheduler.add(spec_of(0, 3, 40));
    const auto plan = scheduler.schedule();
    CHECK(scheduler.settled(plan->step_id) == plan);
}

TEST_CASE("overlap: what stops in the step in flight is a ghost in the next; its blocks are free at once") {
    Scheduler scheduler(draft_config());
    begin(scheduler, {spec_of(0, 3, 40, {9}), spec_of(1, 3, 40)});
    const auto [first, second] = plan_two(scheduler);
    const StepUpdate update = book(scheduler, first, {9, 4}, {0, 1, 2}, {1, 1, 1, 2, 2, 2});
    CHECK(update.finish_reasons == std::vector<FinishReason>{FinishReason::kStop, FinishReason::kRunning});
    CHECK(scheduler.num_running() == 1);
    CHECK(scheduler.num_free_blocks() == 16 - 4);
    CHECK(scheduler.settled(second.step_id)->seq_ids == Ids{0, 1});
    CHECK(scheduler.settled(second.step_id)->token_ids == Tokens{9, 1, 1, 1, 4, 2, 2, 2});
    const StepUpdate last = book(scheduler, second, {3}, {0, 0, 1});
    CHECK(last.seq_ids == Ids{1});
    CHECK(scheduler.stats().num_finished_stop == 1);
    CHECK(scheduler.stats().num_generated_tokens == 5);
}

TEST_CASE("overlap: what surely ends by its length is not planned again") {
    Scheduler scheduler(draft_config());
    begin(scheduler, {spec_of(0, 3, 2), spec_of(1, 3, 3)});
    const StepPlan first = plan_next(scheduler);
    CHECK(first.num_drafts == Tokens{0, 1});
    const StepPlan second = plan_next(scheduler);
    CHECK(second.seq_ids == Ids{1});
    CHECK(second.remap == Tokens{1});
    CHECK(second.draft_caps == Tokens{0});
    CHECK_FALSE(second.make_drafts);
    book(scheduler, first, {4, 6, 4}, {0, 1, 3});  // the second one ends as well
    const StepPlan ghost = *scheduler.settled(second.step_id);
    CHECK(ghost.positions == Tokens{5});
    CHECK_FALSE(scheduler.has_unfinished());
    CHECK(book(scheduler, second, {}, {0, 0}).seq_ids.empty());
    CHECK(scheduler.num_free_blocks() == 16);
}

TEST_CASE("overlap: bounds come as far as runtime_max_model_len, and blocks to the longest text") {
    SchedulerConfig config = draft_config();
    config.max_model_len = 13;
    Scheduler scheduler(config);
    begin(scheduler, {spec_of(0, 7, 20)});
    const auto [first, second] = plan_two(scheduler);
    CHECK(second.max_lens == Tokens{13});
    CHECK(second.positions.back() + 1 == config.runtime_max_model_len());
    CHECK(config.runtime_max_model_len() == 15);
    CHECK(scheduler.num_free_blocks() == 16 - 6);
    book(scheduler, first, {6, 7, 8, 9}, {0, 4}, {1, 1, 1});
    CHECK(scheduler.settled(second.step_id)->positions == Tokens{11});
}

TEST_CASE("overlap: when all surely end, the plan is empty and the step in flight comes first") {
    Scheduler scheduler(draft_config());
    begin(scheduler, {spec_of(0, 3, 2)});
    const StepPlan first = plan_next(scheduler);
    const StepPlan empty = plan_next(scheduler);
    CHECK(empty.kind == StepKind::kEmpty);
    CHECK_THROWS_AS(scheduler.update(empty.step_id, {}, Tokens{0}), std::invalid_argument);
    CHECK(plan_next(scheduler).kind == StepKind::kEmpty);
    book(scheduler, first, {4}, {0, 1});
    CHECK_FALSE(scheduler.has_unfinished());
    plan_next(scheduler);
    CHECK(scheduler.steps_in_flight().empty());
}

TEST_CASE("overlap: nobody is preempted for a bound") {
    SchedulerConfig config = draft_config();
    config.num_blocks = 6;
    config.num_drafts = 0;
    Scheduler scheduler(config);
    begin(scheduler, {spec_of(0, 3, 20), spec_of(1, 3, 20), spec_of(2, 3, 20, {9})});
    const StepPlan first = plan_next(scheduler);
    CHECK(first.num_seqs() == 3);
    CHECK(plan_next(scheduler).kind == StepKind::kEmpty);  // 5 tokens each, in three blocks
    book(scheduler, first, {4, 4, 9}, {0, 1, 2, 3});
    const StepPlan next = plan_next(scheduler);
    CHECK(next.seq_ids == Ids{0, 1});
    CHECK(next.preempted_seq_ids.empty());
    CHECK(scheduler.stats().num_preemptions == 0);
}

TEST_CASE("overlap: a prefill step over a decode step is exact, and the next step waits for it") {
    Scheduler scheduler(draft_config());
    begin(scheduler, {spec_of(0, 3, 20)});
    const StepPlan decode = plan_next(scheduler);
    scheduler.add(spec_of(1, 3, 20));
    const StepPlan prompt = plan_next(scheduler);
    CHECK(prompt.kind == StepKind::kPrefill);
    CHECK(prompt.seq_ids == Ids{1});
    CHECK_FALSE(prompt.is_linked());
    book(scheduler, decode, {6, 7, 4}, {0, 3}, {1, 1, 1});
    CHECK_THROWS_WITH_AS(scheduler.schedule(), "prefill step 2 is in flight: update or discard it first",
                         std::logic_error);
    book(scheduler, prompt, {3}, {0, 1}, {2, 2, 2});
    CHECK(plan_next(scheduler).seq_ids == Ids{0, 1});
}

TEST_CASE("overlap: with more sequences than rows turns rotate, and some are in every other step") {
    SchedulerConfig config = draft_config();
    config.max_num_batched_tokens = 4;
    config.max_num_seqs = config.num_state_slots = 6;
    config.num_drafts = 0;
    Scheduler scheduler(config);
    for (int64_t seq_id = 0; seq_id < 6; ++seq_id) scheduler.add(spec_of(seq_id, 1, 20));
    prefill(scheduler);
    const StepPlan first = plan_next(scheduler);
    CHECK(first.seq_ids == Ids{0, 1, 2, 3});
    const StepPlan second = plan_next(scheduler);
    CHECK(second.seq_ids == Ids{0, 1, 4, 5});
    CHECK(second.remap == Tokens{0, 1, -1, -1});
    CHECK(second.token_ids == Tokens{0, 0, 5, 5});
    book(scheduler, first, {1, 2, 3, 4}, {0, 1, 2, 3, 4});
    const StepPlan third = plan_next(scheduler);
    CHECK(third.seq_ids == Ids{2, 3, 4, 5});
    CHECK(third.remap == Tokens{-1, -1, 2, 3});
    CHECK(third.token_ids == Tokens{3, 4, 0, 0});
    CHECK(scheduler.settled(second.step_id)->token_ids == Tokens{1, 2, 5, 5});
}

TEST_CASE("overlap: who was not in the step in flight has drafts already, and keeps those planned") {
    SchedulerConfig config = draft_config();
    config.max_num_batched_tokens = 4;
    config.max_num_seqs = config.num_state_slots = 6;
    config.num_drafts = 1;
    Scheduler scheduler(config);
    for (int64_t seq_id = 0; seq_id < 6; ++seq_id) scheduler.add(spec_of(seq_id, 1, seq_id < 3 ? 2 : 20));
    prefill(scheduler, 0.5F);
    const StepPlan first = plan_next(scheduler);
    CHECK(first.num_draft_rows == 0);
    const StepPlan second = plan_next(scheduler);  // the first three surely end
    CHECK(second.seq_ids == Ids{3, 4, 5});
    CHECK(second.draft_caps == Tokens{1, 1, 1});
    CHECK(second.num_drafts == Tokens{1, 0, 0});
    book_rated(scheduler, first, {9, 9, 9, 9}, {1, 1, 1, 1});
    CHECK(scheduler.settled(second.step_id)->token_ids == Tokens{5, 9, 5, 5});
    scheduler.discard(second.step_id);
    const StepPlan exact = plan_next(scheduler);
    CHECK(exact.num_drafts == Tokens{1, 0, 0});
}

TEST_CASE("overlap: the total goes by older rates than those of the drafts to come") {
    SchedulerConfig config = draft_config();
    config.varlen = true;
    config.num_blocks = 64;
    const auto num_rows = [&](float older, float newer) {
        Scheduler scheduler(config);
        scheduler.set_cost_curves(CostCurve({{4, 1.0}, {16, 3.6}}), CostCurve({{4, 0.001}}));
        for (int64_t seq_id = 0; seq_id < 4; ++seq_id) scheduler.add(spec_of(seq_id, 3, 40));
        prefill(scheduler, older);
        const StepPlan first = plan_next(scheduler);
        const StepPlan second = plan_next(scheduler);
        book_rated(scheduler, first, Tokens(12, 9), std::vector<float>(12, newer));
        CHECK(scheduler.settled(second.step_id)->num_draft_rows == second.num_draft_rows);
        return second.num_draft_rows;
    };
    CHECK(num_rows(1.0F, 1.0F) == 12);
    CHECK(num_rows(1.0F, 0.0F) == 12);
    CHECK(num_rows(0.0F, 1.0F) == 0);
}

TEST_CASE("overlap: times of either step in flight are taken") {
    Scheduler scheduler(draft_config());
    begin(scheduler, {spec_of(0, 3, 20)});
    const auto [first, second] = plan_two(scheduler);
    scheduler.observe_step_ms(first.step_id, {1, 1, 1});
    scheduler.observe_step_ms(second.step_id, {1, 1, 1});
    CHECK_THROWS_WITH_AS(scheduler.observe_step_ms(7, {1, 1, 1}), "step_id is 7, but steps 1 and 2 are in flight",
                         std::invalid_argument);
}
