#include "cpu/thread_pool.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

using deepinfer::cpu::Range;
using deepinfer::cpu::ThreadPool;

TEST_CASE("every item is visited once, whatever the grain and the number of threads") {
    for (int threads : {1, 2, 3, 8}) {
        ThreadPool pool(threads);
        for (int64_t items : {0, 1, 7, 1000}) {
            for (int64_t grain : {1, 3, 999, 5000}) {
                std::vector<std::atomic<int>> visits(static_cast<size_t>(items));
                pool.for_ranges(items, grain, [&](Range part) {
                    for (int64_t i = part.begin; i < part.end; ++i) ++visits[static_cast<size_t>(i)];
                });
                for (const auto& count : visits) CHECK(count.load() == 1);
            }
        }
    }
}

TEST_CASE("parts at the same time have different threads") {
    ThreadPool pool(3);
    std::vector<std::atomic<int>> in_use(3);
    std::atomic<int> num_clashes{0};
    pool.for_ranges(1000, 1, [&](Range, int thread) {
        if (in_use.at(static_cast<size_t>(thread))++ != 0) ++num_clashes;
        --in_use[static_cast<size_t>(thread)];
    });
    CHECK(num_clashes.load() == 0);
}

TEST_CASE("an exception in a part reaches the caller and the pool stays usable") {
    ThreadPool pool(3);
    for (int round = 0; round < 100; ++round) {
        CHECK_THROWS_AS(pool.for_ranges(100, 1,
                                        [](Range part) {
                                            if (part.begin == 57) throw std::runtime_error("part 57");
                                        }),
                        std::runtime_error);
        std::atomic<int64_t> sum{0};
        pool.for_ranges(100, 1, [&](Range part) { sum += part.size(); });
        CHECK(sum.load() == 100);
    }
}

TEST_CASE("the number of threads is checked") {
    CHECK_THROWS_AS(ThreadPool(0), std::invalid_argument);
    CHECK_THROWS_AS(ThreadPool(100000), std::invalid_argument);
}
