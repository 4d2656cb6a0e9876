// Tests of forks in Scheduler: several texts on one prompt.
#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

#include "core/scheduler.hpp"
#include "step_runner.hpp"

using namespace deepinfer;
using deepinfer::testing::FakeWorker;
using deepinfer::testing::kForkStride;
using deepinfer::testing::run_step;
using deepinfer::testing::small_config;
using deepinfer::testing::Step;

namespace {

using Ids = std::vector<int64_t>;
using Pairs = std::vector<int32_t>;

constexpr int64_t kFork1 = kForkStride;
constexpr int64_t kFork2 = 2 * kForkStride;

SequenceSpec make_family(int64_t prompt_len, int64_t max_tokens, Ids fork_ids = {kFork1, kFork2}) {
    return {0, std::vector<int32_t>(static_cast<size_t>(prompt_len), 1), max_tokens, {}, 0, std::move(fork_ids)};
}

struct Engine {
    explicit Engine(const SchedulerConfig& config) : scheduler(config), worker(config) {}

    Step step() { return run_step(scheduler, worker); }

    Scheduler scheduler;
    FakeWorker worker;
};

}  // namespace

TEST_CASE("forks: one prefill, then all decode on shared blocks with copies of the rest") {
    Engine engine(small_config());
    engine.scheduler.add(make_family(6, 8));
    CHECK(engine.scheduler.stats().num_added == 3);
    CHECK(engine.scheduler.num_waiting() == 1);
    CHECK(engine.scheduler.token_ids(kFork2).size() == 6);
    const Step first = engine.step();
    CHECK(first.plan.num_tokens() == 6);
    CHECK(first.plan.fork_seq_ids == Ids{kFork1, kFork2});
    CHECK(first.plan.cu_forks == Pairs{0, 2});
    CHECK(first.update.seq_ids == Ids{0, kFork1, kFork2});
    CHECK(first.update.cu_tokens == Pairs{0, 1, 2, 3});
    CHECK(engine.scheduler.num_running() == 3);
    CHECK(engine.scheduler.num_free_blocks() == 8 - 4);  // one shared, three of their own
    const Step second = engine.step();
    CHECK(second.plan.kind == StepKind::kDecode);
    CHECK(second.plan.seq_ids == Ids{0, kFork1, kFork2});
    CHECK(second.plan.slot_copies == Pairs{0, 1, 0, 2});
    CHECK(second.plan.block_copies == Pairs{1, 2, 1, 3});
    CHECK(second.plan.block_ids == Pairs{0, 1, 0, 2, 0, 3});
    const Step third = engine.step();
    CHECK(third.plan.slot_copies.empty());
    CHECK(third.plan.block_copies.empty());
    CHECK(engine.scheduler.stats().num_forked == 2);
    CHECK(engine.scheduler.stats().num_prefill_tokens == 6);
}

TEST_CASE("forks: copies come again after a discard, from sources that nobody else got") {
    SchedulerConfig config = small_config();
    config.num_state_slots = 3;
    Engine engine(config);
    engine.scheduler.add(make_family(6, 8, {kFork1}));
    engine.step();
    CHECK(engine.scheduler.abort(0));
    engine.scheduler.check();
    CHECK(engine.scheduler.num_free_state_slots() == 1);  // the parent's is to be copied yet
    SequenceSpec newcomer = make_family(9, 8, {});
    newcomer.seq_id = 7;
    engine.scheduler.add(newcomer);
    const StepPlan failed = *engine.scheduler.schedule();
    CHECK(failed.slot_copies == Pairs{0, 1});
    CHECK(failed.state_slots == Pairs{2});
    engine.worker.execute(failed);
    engine.scheduler.discard(failed.step_id);
    engine.scheduler.check();
    const Step again = engine.step();
    CHECK(again.plan.slot_copies == failed.slot_copies);
    CHECK(again.plan.block_copies == failed.block_copies);
    CHECK(engine.scheduler.num_free_state_slots() == 1);
    while (engine.scheduler.has_unfinished()) engine.step();
}

TEST_CASE("forks: a copy is dropped with its fork") {
    Engine engine(small_config());
    engine.scheduler.add(make_family(6, 8));
    engine.step();
    CHECK(engine.scheduler.abort(kFork1));
    engine.scheduler.check();
    CHECK(engine.step().plan.slot_copies == Pairs{0, 2});
}

TEST_CASE("forks: without a seat a fork waits and computes the prompt again, in order") {
    SchedulerConfig config = small_config();
    config.max_num_seqs = 1;
    Engine engine(config);
    engine.scheduler.add(make_family(6, 3));
    const Step first = engine.step();
    CHECK(first.update.seq_ids == Ids{0, kFork1, kFork2});
    CHECK(engine.scheduler.num_waiting() == 2);
    engine.step();
    engine.step();
    const Step fork = engine.step();
    CHECK(fork.plan.seq_ids == Ids{kFork1});
    CHECK(fork.plan.num_tokens() == 7);
    CHECK(fork.plan.output_indices == Pairs{1});
    CHECK(engine.scheduler.stats().num_recomputed_tokens == 6);
    while (engine.scheduler.has_unfinished()) engine.step();
    CHECK(engine.scheduler.stats().num_finished_length == 3);
    CHECK(engine.scheduler.stats().num_forked == 0);
}

TEST_CASE("forks: admission keeps places for those to come") {
    SchedulerConfig config = small_config();
    config.max_prefill_chunk = 4;
    Engine engine(config);
    engine.scheduler.add(make_family(6, 8));
    SequenceSpec other = make_family(2, 8, {});
    other.seq_id = 5;
    engine.scheduler.add(other);
    SequenceSpec late = other;
    late.seq_id = 6;
    engine.scheduler.add(late);
    CHECK(engine.step().plan.seq_ids == Ids{0, 5});  // 6 would take the seat of a fork
    engine.step();
    CHECK(engine.scheduler.num_running() == 4);
    CHECK(engine.scheduler.stats().num_forked == 2);
}

TEST_CASE("forks: a family as large as the engine starts when nothing else runs") {
    Engine engine(small_config());
    SequenceSpec other = make_family(2, 3, {});
    other.seq_id = 5;
    engine.scheduler.add(other);
    engine.scheduler.add(make_family(2, 3, {kFork1, kFork2, 3 * kForkStride, 4 * kForkStride}));
    engine.step();
    engine.step();
    CHECK(engine.step().update.finish_reasons == std::vector<FinishReason>{FinishReason::kLength});
    CHECK(engine.step().update.seq_ids.size() == 5);
    CHECK(engine.scheduler.num_running() == 4);
    CHECK(engine.scheduler.num_waiting() == 1);
}

TEST_CASE("forks: none come without a token, and all end with length") {
    Engine engine(small_config());
    engine.scheduler.add(make_family(6, 0));
    const Step step = engine.step();
    CHECK(step.plan.fork_seq_ids.empty());
    CHECK(step.update.seq_ids == Ids{0, kFork1, kFork2});
    CHECK(step.update.finish_reasons == std::vector<FinishReason>(3, FinishReason::kLength));
    CHECK(step.update.tokens.empty());
    CHECK_FALSE(engine.scheduler.has_unfinished());
}

TEST_CASE("forks: the parent may stop with its first token, and a fork too") {
    Scheduler scheduler(small_config());
    SequenceSpec spec = make_family(6, 8);
    spec.stop_token_ids = {9};
    scheduler.add(spec);
    StepPlan plan = *scheduler.schedule();
    const StepUpdate update = scheduler.update(plan.step_id, Pairs{9, 5, 9}, Pairs{0, 3});
    scheduler.check();
    CHECK(update.finish_reasons ==
          std::vector<FinishReason>{FinishReason::kStop, FinishReason::kRunning, FinishReason::kStop});
    CHECK(scheduler.num_running() == 1);
    plan = *scheduler.schedule();
    CHECK(plan.seq_ids == Ids{kFork1});
    CHECK(plan.slot_copies == Pairs{0, 1});
    CHECK(plan.block_copies == Pairs{1, 2});
}

TEST_CASE("forks: those to come go with their parent, or alone") {
    Scheduler scheduler(small_config());
    scheduler.add(make_family(6, 8));
    CHECK(scheduler.finish(kFork1, 0));
    CHECK_FALSE(scheduler.abort(kFork1));
    const StepPlan plan = *scheduler.schedule();
    CHECK(plan.fork_seq_ids == Ids{kFork2});
    CHECK(scheduler.abort(0));
    CHECK_FALSE(scheduler.abort(kFork2));
    CHECK(scheduler.update(plan.step_id, Pairs{1, 2}, Pairs{0, 2}).seq_ids.empty());
    CHECK_FALSE(scheduler.has_unfinished());
    scheduler.check();
    CHECK(scheduler.stats().num_aborted == 2);
    CHECK(scheduler.stats().num_finished_external == 1);
}

TEST_CASE("forks: the token of one that went during the step is ignored, the count is not") {
    Scheduler scheduler(small_config());
    scheduler.add(make_family(6, 8));
    const StepPlan plan = *scheduler.schedule();
    CHECK(scheduler.abort(kFork1));
    CHECK_THROWS_WITH_AS(scheduler.update(plan.step_id, Pairs{1, 2}, Pairs{0, 2}),
                         "sequence 0 got 2 tokens; this step gives it 3", std::invalid_argument);
    const StepUpdate update = scheduler.update(plan.step_id, Pairs{1, 2, 3}, Pairs{0, 3});
    CHECK(update.seq_ids == Ids{0, kFork2});
    CHECK(update.tokens == Pairs{1, 3});
    scheduler.check();
}

TEST_CASE("forks: wrong ids are refused") {
    Scheduler scheduler(small_config());
    const auto add = [&](Ids fork_ids) { scheduler.add(make_family(2, 1, std::move(fork_ids))); };
    CHECK_THROWS_WITH_AS(add({0}), "sequence 0: fork_seq_ids: 0 is there twice", std::invalid_argument);
    CHECK_THROWS_WITH_AS(add({5, 5}), "sequence 0: fork_seq_ids: 5 is there twice", std::invalid_argument);
    CHECK_THROWS_WITH_AS(add({-1}), "sequence 0: fork_seq_ids has -1, which is below 0", std::invalid_argument);
    add({5});
    SequenceSpec other = make_family(2, 1, {5});
    other.seq_id = 1;
    CHECK_THROWS_WITH_AS(scheduler.add(other),
                         "sequence 1: fork_seq_ids has 5, which is in use by an unfinished sequence",
                         std::invalid_argument);
    other = make_family(2, 1, {});
    other.seq_id = 5;
    CHECK_THROWS_WITH_AS(scheduler.add(other), "sequence 5: the id is in use by an unfinished sequence",
                         std::invalid_argument);
}
