// Tests of BlockPool.
#include <doctest/doctest.h>

#include <deque>
#include <map>
#include <random>
#include <stdexcept>

#include "core/block_pool.hpp"

using deepinfer::BlockPool;

TEST_CASE("block pool: units are handed out from 0 up and reused in the order of their release") {
    BlockPool pool(4, "block");
    for (int id = 0; id < 4; ++id) CHECK(pool.allocate() == id);
    CHECK(pool.num_free() == 0);
    pool.release(2);
    pool.release(0);
    pool.check();
    CHECK(pool.allocate() == 2);
    CHECK(pool.allocate() == 0);
    CHECK(pool.num_free() == 0);
    pool.check();
}

TEST_CASE("block pool: a shared unit is free only after its last release") {
    BlockPool pool(2, "block");
    const int id = pool.allocate();
    pool.retain(id);
    CHECK(pool.ref_count(id) == 2);
    pool.release(id);
    CHECK(pool.num_free() == 1);
    pool.release(id);
    CHECK(pool.num_free() == 2);
    pool.check();
}

TEST_CASE("block pool: misuse throws and names the unit") {
    CHECK_THROWS_WITH_AS(BlockPool(0, "block"), "number of blocks is 0; at least 1 is needed", std::invalid_argument);
    BlockPool pool(1, "state slot");
    CHECK_THROWS_WITH_AS(pool.release(0), "cannot release state slot 0: it is free", std::logic_error);
    CHECK_THROWS_WITH_AS(pool.retain(0), "cannot retain state slot 0: it is free", std::logic_error);
    CHECK_THROWS_WITH_AS(pool.release(1), "state slot 1 is outside 0..0", std::out_of_range);
    CHECK_THROWS_AS(pool.release(-1), std::out_of_range);
    pool.allocate();
    CHECK_THROWS_WITH_AS(pool.allocate(), "no free state slot left of 1", std::logic_error);
    pool.check();
}

TEST_CASE("block pool: a random walk agrees with a queue and a map") {
    std::mt19937 random(7);
    constexpr int kNumUnits = 9;
    BlockPool pool(kNumUnits, "block");
    std::deque<int> free_units;
    for (int id = 0; id < kNumUnits; ++id) free_units.push_back(id);
    std::map<int, int> refs;
    const auto any_used = [&] { return std::next(refs.begin(), random() % refs.size())->first; };
    for (int step = 0; step < 5000; ++step) {
        const unsigned action = random() % 3;
        if (action == 0 && !free_units.empty()) {
            REQUIRE(pool.allocate() == free_units.front());
            refs[free_units.front()] = 1;
            free_units.pop_front();
        } else if (action == 1 && !refs.empty()) {
            const int id = any_used();
            pool.retain(id);
            ++refs[id];
        } else if (!refs.empty()) {
            const int id = any_used();
            pool.release(id);
            if (--refs[id] == 0) {
                refs.erase(id);
                free_units.push_back(id);
            }
        }
        pool.check();
        REQUIRE(pool.num_free() == static_cast<int>(free_units.size()));
        for (const auto& [id, count] : refs) REQUIRE(pool.ref_count(id) == count);
    }
}

TEST_CASE("block pool: free units are revived from anywhere in the free list, units in use get a reference") {
    BlockPool pool(6, "block");
    for (int i = 0; i < 4; ++i) pool.allocate();
    for (const int id : {1, 3, 0}) pool.release(id);  // free: 4 5 1 3 0; in use: 2
    CHECK(pool.generation(1) == 1);
    pool.revive({4, 2, 0});
    pool.check();
    CHECK(pool.num_free() == 3);
    CHECK(pool.ref_count(2) == 2);
    CHECK(pool.ref_count(0) == 1);
    CHECK(pool.generation(0) == 1);
    CHECK(pool.allocate() == 5);
    pool.release(0);
    pool.revive({1, 3, 0});
    pool.check();
    CHECK(pool.num_free() == 0);
    pool.release(3);
    pool.check();
    CHECK(pool.allocate() == 3);
    CHECK(pool.generation(3) == 2);
}
