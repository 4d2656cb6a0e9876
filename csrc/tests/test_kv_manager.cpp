// Tests of KVManager.
#include <doctest/doctest.h>

#include <stdexcept>

#include "core/kv_manager.hpp"

using deepinfer::KVManager;
using deepinfer::SequenceCache;

TEST_CASE("kv manager: opening takes a slot and exactly the blocks needed") {
    KVManager kv(4, 8, 2);
    SequenceCache cache;
    CHECK(kv.capacity_tokens() == 32);
    CHECK(kv.blocks_for(0) == 0);
    CHECK(kv.blocks_for(8) == 1);
    CHECK(kv.blocks_for(9) == 2);
    kv.open(cache, 9);
    CHECK(cache.block_ids == std::vector<int32_t>{0, 1});
    CHECK(cache.state_slot == 0);
    CHECK(kv.num_free_blocks() == 2);
    CHECK(kv.num_free_state_slots() == 1);
    kv.check({&cache});
    CHECK_THROWS_AS(kv.open(cache, 1), std::logic_error);
}

TEST_CASE("kv manager: growing is all or nothing") {
    KVManager kv(3, 4, 1);
    SequenceCache cache;
    CHECK_THROWS_AS(kv.try_grow(cache, 1), std::logic_error);
    kv.open(cache, 4);
    CHECK(kv.try_grow(cache, 4));
    CHECK(cache.block_ids.size() == 1);
    CHECK_FALSE(kv.try_grow(cache, 13));
    CHECK(cache.block_ids.size() == 1);
    CHECK(kv.try_grow(cache, 12));
    CHECK(cache.block_ids.size() == 3);
    CHECK(kv.try_grow(cache, 5));  // shorter than what is held: nothing to do
    CHECK(cache.block_ids.size() == 3);
}

TEST_CASE("kv manager: blocks and slots must both suffice") {
    KVManager kv(4, 8, 1);
    CHECK(kv.can_open(32, 0));
    CHECK_FALSE(kv.can_open(33, 0));
    CHECK_FALSE(kv.can_open(32, 1));
    SequenceCache first;
    SequenceCache second;
    kv.open(first, 1);
    CHECK_FALSE(kv.can_open(1, 0));
    CHECK_THROWS_WITH_AS(kv.open(second, 1), "no room for 1 tokens: 3 blocks and 0 state slots are free",
                         std::logic_error);
    CHECK_FALSE(second.is_open());
}

TEST_CASE("kv manager: release gives everything back, last block first, and may be repeated") {
    KVManager kv(3, 1, 1);
    SequenceCache cache;
    kv.open(cache, 3);
    kv.release(cache);
    kv.release(cache);
    CHECK(kv.is_idle());
    CHECK_FALSE(cache.is_open());
    kv.open(cache, 3);
    CHECK(cache.block_ids == std::vector<int32_t>{2, 1, 0});
}

TEST_CASE("kv manager: check finds a leak and a double claim") {
    KVManager kv(2, 1, 2);
    SequenceCache cache;
    kv.open(cache, 1);
    CHECK_THROWS_WITH_AS(kv.check({}), "block 0 has 1 references, but 0 sequences, copies and prefixes hold it",
                         std::logic_error);
    const SequenceCache copy = cache;
    CHECK_THROWS_WITH_AS(kv.check({&cache, &copy}), "state slot 0 is held by two sequences", std::logic_error);
}

TEST_CASE("kv manager: a fork shares full blocks and gets its own slot and last block") {
    KVManager kv(4, 4, 2);
    SequenceCache parent;
    SequenceCache fork;
    kv.open(parent, 10);
    const auto copy = kv.try_fork(parent, 10, fork);
    REQUIRE(copy);
    CHECK(fork.block_ids == std::vector<int32_t>{0, 1, 3});
    CHECK(fork.state_slot == 1);
    CHECK((copy->src_slot == 0 && copy->dst_slot == 1 && copy->src_block == 2 && copy->dst_block == 3));
    kv.check({&parent, &fork}, {*copy});
    CHECK_THROWS_AS(kv.check({&parent, &fork}), std::logic_error);
    kv.release(parent);  // what the fork shares and what is still to be copied stays in use
    CHECK(kv.num_free_blocks() == 0);
    CHECK(kv.num_free_state_slots() == 0);
    kv.end_copy(*copy);
    CHECK(kv.num_free_blocks() == 1);
    CHECK(kv.num_free_state_slots() == 1);
    kv.check({&fork});
    kv.release(fork);
    CHECK(kv.is_idle());
}

TEST_CASE("kv manager: a fork on a block boundary copies no block; without room there is no fork") {
    KVManager kv(2, 4, 3);
    SequenceCache parent;
    SequenceCache first;
    SequenceCache second;
    kv.open(parent, 8);
    const auto copy = kv.try_fork(parent, 8, first);
    REQUIRE(copy);
    CHECK_FALSE(copy->has_block());
    CHECK(first.block_ids == parent.block_ids);
    CHECK_FALSE(kv.try_fork(parent, 7, second));  // no block left for the copy
    CHECK_FALSE(second.is_open());
    CHECK(kv.try_fork(parent, 4, second));
    CHECK(second.block_ids == std::vector<int32_t>{0});
    SequenceCache third;
    CHECK_FALSE(kv.try_fork(parent, 4, third));  // no slot left
    CHECK_THROWS_AS(kv.try_fork(third, 4, second), std::logic_error);
}

TEST_CASE("kv manager: a cache on a prefix shares full blocks and copies a partly filled one") {
    KVManager kv(8, 4, 2);
    SequenceCache first;
    kv.open(first, 10);
    const std::vector<int32_t> blocks = first.block_ids;
    kv.release(first);
    kv.hold_blocks(blocks);
    CHECK(kv.is_idle(3));
    SequenceCache second;
    const auto copy = kv.open_on(second, 13, blocks, 9);
    REQUIRE(copy.has_value());
    CHECK_FALSE(copy->has_slot());
    CHECK(copy->src_block == blocks[2]);
    CHECK(copy->dst_block == second.block_ids[2]);
    CHECK(second.block_ids.size() == 4);
    CHECK(second.block_ids[1] == blocks[1]);
    kv.check({&second}, {*copy}, blocks);
    kv.end_copy(*copy);
    kv.release(second);
    CHECK_FALSE(kv.open_on(second, 13, blocks, 8).has_value());
    kv.release(second);
    kv.drop_blocks(blocks);
    CHECK(kv.is_idle());
}
