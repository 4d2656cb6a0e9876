// Random walks of Scheduler against texts that were made without it, and a long run under load.
#include <doctest/doctest.h>

#include <random>

#include "core/scheduler.hpp"
#include "walk.hpp"

using namespace deepinfer;
using deepinfer::testing::random_config;
using deepinfer::testing::Walk;

TEST_CASE("walk: random loads on random configurations give the texts made without a scheduler") {
    std::mt19937 random(1234);
    int64_t num_preemptions = 0;
    int64_t num_forked = 0;
    int64_t num_accepted = 0;
    int64_t num_verified = 0;
    int64_t num_finished = 0;
    for (uint32_t seed = 0; seed < 150; ++seed) {
        const SchedulerConfig config = random_config(random);
        CAPTURE(seed);
        Walk walk(config, seed);
        for (int turn = 0; turn < 150; ++turn) walk.act();
        walk.run_to_the_end();
        num_preemptions += walk.scheduler().stats().num_preemptions;
        num_forked += walk.scheduler().stats().num_forked;
        num_accepted += walk.scheduler().stats().num_drafts_accepted;
        num_verified += walk.scheduler().stats().num_drafts_verified;
        num_finished += walk.num_finished();
    }
    CHECK(num_preemptions > 100);
    CHECK(num_forked > 300);
    CHECK(num_accepted > 1000);
    CHECK(num_verified > num_accepted);
    CHECK(num_finished > 1000);
}

TEST_CASE("walk: a thousand steps under load end in an empty scheduler") {
    const SchedulerConfig config{.num_blocks = 120,
                                 .block_size = 8,
                                 .num_state_slots = 32,
                                 .max_num_seqs = 32,
                                 .max_num_batched_tokens = 64,
                                 .max_prefill_chunk = 24,
                                 .max_model_len = 80,
                                 .num_lookback = 3};
    Walk walk(config, 5);
    for (int step = 0; step < 1000; ++step) {
        while (walk.scheduler().num_waiting() < 4) walk.add();
        walk.step(true);
    }
    walk.run_to_the_end();
    const SchedulerStats stats = walk.scheduler().stats();
    CHECK(stats.num_preemptions > 0);
    CHECK(stats.num_added == walk.num_finished() + stats.num_aborted + stats.num_finished_external);
}
