// Tests of Scheduler: what each rule says, case by case.
#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "core/scheduler.hpp"
#include "step_runner.hpp"

using namespace deepinfer;
using deepinfer::testing::FakeWorker;
using deepinfer::testing::run_step;
using deepinfer::testing::small_config;
using deepinfer::testing::Step;

namespace {

SequenceSpec make_spec(int64_t id, int64_t prompt_len, int64_t max_tokens) {
    return {id, std::vector<int32_t>(static_cast<size_t>(prompt_len), 1), max_tokens, {}, 0};
}

std::string refusal(const SchedulerConfig& config, const SequenceSpec& spec) {
    Scheduler scheduler(config);
    try {
        scheduler.add(spec);
    } catch (const std::invalid_argument& error) {
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("scheduler config: a wrong field is named with its value") {
    SchedulerConfig config = small_config();
    config.num_blocks = 0;
    CHECK_THROWS_WITH_AS(Scheduler{config}, "num_blocks is 0; it must be 1..2147483647", std::invalid_argument);
    config = small_config();
    config.num_drafts = 65;
    CHECK_THROWS_WITH_AS(Scheduler{config}, "num_drafts is 65; it must be 0..64", std::invalid_argument);
}

TEST_CASE("scheduler: wrong sequences are refused with the figures") {
    SchedulerConfig config = small_config();
    CHECK(refusal(config, make_spec(1, 0, 1)) == "sequence 1: the prompt is empty; at least one token is needed");
    CHECK(refusal(config, make_spec(1, 65, 1)) == "sequence 1: the prompt has 65 tokens, max_model_len is 64");
    CHECK(refusal(config, make_spec(1, 33, 1)) ==
          "sequence 1: the prompt has 33 tokens and needs 9 cache blocks; the whole cache has 8 blocks of 4 tokens, "
          "a capacity of 32 tokens");
    CHECK(refusal(config, make_spec(1, 32, 1)).empty());
    CHECK(refusal(config, make_spec(-1, 1, 1)) == "sequence -1: the id must be >= 0");
    CHECK(refusal(config, make_spec(1, 1, -1)) == "sequence 1: max_tokens is -1; it must be >= 0");
    CHECK(refusal(config, {1, {3, -7}, 1, {}, 0}) == "sequence 1: prompt_token_ids[1] is -7; token ids must be >= 0");
    config.enable_chunked_prefill = false;
    CHECK(refusal(config, make_spec(1, 17, 1)) ==
          "sequence 1: the prompt has 17 tokens, max_num_batched_tokens is 16 and chunked prefill is off");
}

TEST_CASE("scheduler: an id is free again once its sequence has ended") {
    Scheduler scheduler(small_config());
    scheduler.add(make_spec(1, 2, 1));
    CHECK_THROWS_WITH_AS(scheduler.add(make_spec(1, 2, 1)), "sequence 1: the id is in use by an unfinished sequence",
                         std::invalid_argument);
    CHECK(scheduler.abort(1));
    scheduler.add(make_spec(1, 2, 1));
    CHECK(scheduler.num_waiting() == 1);
}

TEST_CASE("scheduler: a long prompt is cut by the chunk, several by the budget") {
    SchedulerConfig config = small_config();
    config.max_prefill_chunk = 6;
    Scheduler scheduler(config);
    FakeWorker worker(config);
    for (int id = 0; id < 3; ++id) scheduler.add(make_spec(id, 8, 4));
    CHECK(run_step(scheduler, worker).plan.cu_seqlens_q == std::vector<int32_t>{0, 6, 12, 16});
    const Step second = run_step(scheduler, worker);
    CHECK(second.plan.cu_seqlens_q == std::vector<int32_t>{0, 2, 4, 8});
    CHECK(second.plan.samples == std::vector<uint8_t>{1, 1, 1});
    CHECK(second.update.seq_ids == std::vector<int64_t>{0, 1, 2});
    CHECK(run_step(scheduler, worker).plan.kind == StepKind::kDecode);
}

TEST_CASE("scheduler: without chunking a prompt waits until it fits a step whole") {
    SchedulerConfig config = small_config();
    config.enable_chunked_prefill = false;
    config.max_prefill_chunk = 2;
    Scheduler scheduler(config);
    FakeWorker worker(config);
    for (int id = 0; id < 3; ++id) scheduler.add(make_spec(id, 7, 4));
    CHECK(run_step(scheduler, worker).plan.cu_seqlens_q == std::vector<int32_t>{0, 7, 14});
    CHECK(run_step(scheduler, worker).plan.cu_seqlens_q == std::vector<int32_t>{0, 7});
}

TEST_CASE("scheduler: the latest admitted is preempted, keeps its tokens and comes back") {
    SchedulerConfig config = small_config();
    config.num_blocks = 4;
    Scheduler scheduler(config);
    FakeWorker worker(config);
    scheduler.add(make_spec(0, 7, 20));
    scheduler.add(make_spec(1, 7, 20));
    run_step(scheduler, worker);  // 8 tokens each, two blocks each
    run_step(scheduler, worker);  // 9 tokens each: both want a third block
    const Step third = run_step(scheduler, worker);
    CHECK(third.plan.preempted_seq_ids == std::vector<int64_t>{1});
    CHECK(third.plan.seq_ids == std::vector<int64_t>{0});
    CHECK(scheduler.num_waiting() == 1);
    CHECK(scheduler.token_ids(1).size() == 9);
    CHECK(scheduler.abort(0));
    const Step recompute = run_step(scheduler, worker);
    CHECK(recompute.plan.kind == StepKind::kPrefill);
    CHECK(recompute.plan.num_tokens() == 9);
    CHECK(recompute.plan.prompt_lens == std::vector<int32_t>{7});
    CHECK(recompute.plan.output_indices == std::vector<int32_t>{2});
    CHECK(scheduler.stats().num_recomputed_tokens == 8);
}

TEST_CASE("scheduler: a step is booked once, whole, and by its number") {
    Scheduler scheduler(small_config());
    scheduler.add(make_spec(0, 3, 4));
    const StepPlan plan = *scheduler.schedule();
    const std::vector<int32_t> token{5}, no_token{}, cu_one{0, 1}, cu_none{0, 0}, negative{-5}, cu_long{0, 1, 1};
    CHECK_THROWS_AS(scheduler.schedule(), std::logic_error);
    CHECK_THROWS_WITH_AS(scheduler.update(99, token, cu_one), "step_id is 99, but step 0 is in flight",
                         std::invalid_argument);
    CHECK_THROWS_WITH_AS(scheduler.update(0, no_token, cu_none), "sequence 0 got 0 tokens; this step gives it 1",
                         std::invalid_argument);
    CHECK_THROWS_AS(scheduler.update(0, token, cu_long), std::invalid_argument);
    CHECK_THROWS_AS(scheduler.update(0, token, cu_none), std::invalid_argument);
    CHECK_THROWS_AS(scheduler.update(0, negative, cu_one), std::invalid_argument);
    scheduler.check();
    CHECK(scheduler.update(plan.step_id, token, cu_one).tokens == token);
    CHECK_THROWS_WITH_AS(scheduler.update(0, token, cu_one), "step_id is 0, but no step is in flight",
                         std::invalid_argument);
}

TEST_CASE("scheduler: a discarded step can be planned again") {
    Scheduler scheduler(small_config());
    scheduler.add(make_spec(0, 3, 4));
    const StepPlan first = *scheduler.schedule();
    scheduler.discard(first.step_id);
    scheduler.check();
    const StepPlan second = *scheduler.schedule();
    CHECK(second.step_id == first.step_id + 1);
    CHECK(second.token_ids == first.token_ids);
}

TEST_CASE("scheduler: rows of a sequence that went during the step are ignored, even if its id came back") {
    Scheduler scheduler(small_config());
    scheduler.add(make_spec(0, 3, 4));
    scheduler.add(make_spec(1, 3, 4));
    const StepPlan plan = *scheduler.schedule();
    CHECK(scheduler.abort(0));
    scheduler.add(make_spec(0, 5, 4));
    scheduler.check();
    const std::vector<int32_t> tokens{5, 6}, cu_tokens{0, 1, 2};
    const StepUpdate update = scheduler.update(plan.step_id, tokens, cu_tokens);
    CHECK(update.seq_ids == std::vector<int64_t>{1});
    CHECK(update.tokens == std::vector<int32_t>{6});
    CHECK(scheduler.token_ids(0).size() == 5);
    scheduler.check();
}

TEST_CASE("scheduler: a preempted sequence goes before the waiting, once the running ones have room to grow") {
    SchedulerConfig config = small_config();
    config.num_blocks = 6;
    Scheduler scheduler(config);
    FakeWorker worker(config);
    for (int id = 0; id < 3; ++id) scheduler.add(make_spec(id, 7, 20));
    scheduler.add(make_spec(3, 1, 20));
    run_step(scheduler, worker);  // 0, 1 and the beginning of 2; 3 finds no block
    run_step(scheduler, worker);  // the rest of 2
    run_step(scheduler, worker);  // 9 tokens each: all want a third block
    const Step fourth = run_step(scheduler, worker);
    CHECK(fourth.plan.kind == StepKind::kDecode);
    CHECK(fourth.plan.preempted_seq_ids == std::vector<int64_t>{2});
    CHECK(fourth.plan.seq_ids == std::vector<int64_t>{0, 1});
    CHECK(scheduler.num_free_blocks() == 0);
    CHECK(scheduler.abort(1));
    CHECK(scheduler.num_free_blocks() == 3);
    CHECK(run_step(scheduler, worker).plan.seq_ids == std::vector<int64_t>{0});  // 2 needs 3 blocks and 1 spare
    CHECK(scheduler.abort(0));
    CHECK(run_step(scheduler, worker).plan.seq_ids == std::vector<int64_t>{2, 3});
}

TEST_CASE("scheduler: when the budget is below the batch, everyone has a turn before anyone has two") {
    SchedulerConfig config = small_config();
    config.max_num_batched_tokens = 3;
    Scheduler scheduler(config);
    FakeWorker worker(config);
    for (int id = 0; id < 4; ++id) scheduler.add(make_spec(id, 1, 20));
    while (scheduler.num_waiting() > 0) run_step(scheduler, worker);
    std::vector<std::vector<int64_t>> turns;
    for (int step = 0; step < 4; ++step) turns.push_back(run_step(scheduler, worker).plan.seq_ids);
    CHECK(turns == std::vector<std::vector<int64_t>>{{0, 1, 2}, {0, 1, 3}, {0, 2, 3}, {1, 2, 3}});
}
