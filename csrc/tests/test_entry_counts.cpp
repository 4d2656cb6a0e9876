// Tests of the closed forms behind the step estimator.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "core/entry_counts.hpp"

using deepinfer::EntryCounts;
using deepinfer::ModelShape;

namespace {

// Entries of the candidate blocks of a row that sees `visible` entries.
int64_t inside_candidates(const ModelShape& shape, int64_t visible) {
    const int64_t size = shape.candidate_block_size;
    const int64_t newest = (visible - 1) / size;
    int64_t count = 0;
    for (int64_t entry = 0; entry < visible; ++entry) {
        const int64_t block = entry / size;
        count += block == newest || block < shape.candidate_blocks - 1;
    }
    return count;
}

EntryCounts counted(const ModelShape& shape, int64_t ratio, int64_t begin, int64_t end) {
    EntryCounts counts;
    for (int64_t position = begin; position < end; ++position) {
        const int64_t visible = (position + 1) / ratio;
        counts.picks += std::min(visible, shape.index_topk);
        if (visible <= shape.index_topk) continue;
        ++counts.choosing_rows;
        counts.scored += visible;
        counts.scored_blocks += inside_candidates(shape, visible);
    }
    return counts;
}

}  // namespace

TEST_CASE("entry counts: closed forms equal loops") {
    std::mt19937 random(1);
    const auto pick = [&](int64_t low, int64_t high) {
        return std::uniform_int_distribution<int64_t>(low, high)(random);
    };
    for (int round = 0; round < 300; ++round) {
        ModelShape shape;
        shape.index_topk = pick(0, 20);
        shape.candidate_block_size = pick(1, 5);
        shape.candidate_blocks = 1 + shape.index_topk / shape.candidate_block_size + pick(0, 4);
        const int64_t ratio = pick(1, 4);
        const int64_t begin = pick(0, 100);
        const int64_t end = begin + pick(0, 60);
        EntryCounts got;
        got.add(shape, ratio, begin, end);
        const EntryCounts want = counted(shape, ratio, begin, end);
        CHECK(got.picks == want.picks);
        CHECK(got.choosing_rows == want.choosing_rows);
        CHECK(got.scored == want.scored);
        if (ratio == 1) CHECK(got.scored_blocks == want.scored_blocks);
    }
}

TEST_CASE("entry counts: window keys equal a loop") {
    for (int64_t first : {0, 3, 40}) {
        for (int64_t begin = 0; begin < 30; begin += 5) {
            int64_t want = 0;
            for (int64_t p = begin; p < begin + 17; ++p) want += std::clamp<int64_t>(p + 1 - first, 0, 8);
            CHECK(deepinfer::window_pairs(8, first, begin, begin + 17) == want);
        }
    }
}
