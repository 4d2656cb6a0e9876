#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "cpu/model/random_word.hpp"
#include "cpu/model/row_sampler.hpp"

using namespace deepinfer::cpu;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<int64_t> sample(RowSampler& sampler, const std::vector<float>& logits, int64_t stride,
                            const std::vector<int64_t>& seq_ids, bool is_draft = false) {
    Context context(1, best_isa());
    const std::vector<int64_t> indices(seq_ids.size(), 3);
    std::vector<int64_t> tokens(seq_ids.size());
    if (is_draft)
        sampler.draft(context, {logits.data(), stride}, seq_ids, indices, tokens);
    else
        sampler.sample(context, {logits.data(), stride}, seq_ids, indices, tokens);
    return tokens;
}

}  // namespace

TEST_CASE("row sampler: greedy and drawn rows side by side, each with its own key") {
    RowSampler sampler(3);
    sampler.add(7, {});
    const SamplingRule drawn{.takes_argmax = false, .filters = {}, .seed = 11, .prompt_hash = 12, .stop_ids = {}};
    sampler.add(8, drawn);
    // Three equal tokens: the word's third of 2^64 decides. The fourth column is no id.
    const std::vector<float> logits = {0, 2, 2, 9, 1, 1, 1, 9, 5, 4, 4, 9};
    const uint64_t word = random_word({11, 12, 3, 0});
    const auto expected = static_cast<int64_t>(static_cast<double>(word) / std::ldexp(1.0, 64) * 3);
    CHECK(sample(sampler, logits, 4, {7, 8, 7}) == std::vector<int64_t>{1, expected, 0});
    sampler.remove(7);
    CHECK_THROWS_AS(sample(sampler, logits, 4, {7}), std::out_of_range);
}

TEST_CASE("row sampler: rows that cannot be drawn have no token, and token 0 as drafts") {
    RowSampler sampler(2);
    sampler.add(1, {});
    const float nan = std::nanf("");
    for (const std::vector<float>& row : std::vector<std::vector<float>>{
             {nan, 1, 0}, {kInfinity, 1, 0}, {-kInfinity, -kInfinity, 0}, {0, 1, nan}, {0, 1, kInfinity}})
        CHECK(sample(sampler, row, 3, {1}).front() == RowSampler::kNoToken);
    CHECK(sample(sampler, {0, 1, -kInfinity}, 3, {1}).front() == 1);
    CHECK(sample(sampler, {nan, 1, 0}, 3, {1}, true).front() == 0);
}

TEST_CASE("row sampler: from which index on a sequence is plain, and which tokens end it") {
    RowSampler sampler(4);
    sampler.add(1, {.filters = {}, .plain_from = 2, .stop_ids = {0, 3}});
    sampler.add(2, {.filters = {}, .plain_from = SamplingRule::kNever, .stop_ids = {}});
    CHECK_FALSE(sampler.is_plain(1, 1));
    CHECK(sampler.is_plain(1, 2));
    CHECK_FALSE(sampler.is_plain(2, 1'000'000));
    CHECK(sampler.ends(1, 3));
    CHECK_FALSE(sampler.ends(1, 2));
    CHECK_FALSE(sampler.ends(2, 3));
    CHECK_THROWS_AS(sampler.is_plain(9, 0), std::out_of_range);
}
