#include <doctest/doctest.h>

#include <cstring>
#include <stdexcept>
#include <vector>

#include "cpu/context.hpp"
#include "cpu/ops/embed_rows.hpp"
#include "cpu/ops/hc_mix.hpp"
#include "cpu/ops/hc_read.hpp"
#include "cpu/ops/hc_write.hpp"
#include "cpu/ops/rms_norm.hpp"
#include "cpu/ops/stream_mean.hpp"
#include "cpu/tests/all_isas.hpp"
#include "cpu/tests/random_weights.hpp"

using namespace deepinfer::cpu;

namespace {

constexpr int64_t kRows = 7, kDim = 53;

}  // namespace

TEST_CASE("hc_read with its norm is hc_read and rms_norm one after the other") {
    for (int64_t size : {1, 3, 4, 16}) {
        const std::vector<float> streams = random_floats(kRows * size * kDim, 1), pre = random_floats(kRows * size, 2);
        const std::vector<float> weight = random_floats(kDim, 3);
        for (Isa isa : supported_isas()) {
            for (bool rounds : {false, true}) {
                Context context(2, isa);
                std::vector<float> fused(static_cast<size_t>(kRows * kDim)), apart(fused.size());
                hc_read(context, {streams.data(), pre.data(), weight.data(), fused.data(), kRows, size, kDim, 1e-6f,
                                  true, rounds});
                hc_read(context,
                        {streams.data(), pre.data(), nullptr, apart.data(), kRows, size, kDim, 0.0f, false, rounds});
                rms_norm(context, {apart.data(), weight.data(), apart.data(), kRows, kDim, 1e-6f, rounds});
                CHECK(fused == apart);
            }
        }
    }
}

TEST_CASE("hc_write works in place") {
    const std::vector<float> streams = random_floats(kRows * 4 * kDim, 1), out = random_floats(kRows * kDim, 2);
    const std::vector<float> post = random_floats(kRows * 4, 3), comb = random_floats(kRows * 16, 4);
    Context context(1, best_isa());
    std::vector<float> apart(streams.size()), in_place = streams;
    hc_write(context, {streams.data(), out.data(), post.data(), comb.data(), apart.data(), kRows, 4, kDim, true});
    hc_write(context, {in_place.data(), out.data(), post.data(), comb.data(), in_place.data(), kRows, 4, kDim, true});
    CHECK(in_place == apart);
}

TEST_CASE("embedded tokens begin as equal streams, whose mean is the embedding") {
    const std::vector<float> table = random_floats(10 * kDim, 1);
    std::vector<uint16_t> half(table.size());
    for (size_t i = 0; i < half.size(); ++i) half[i] = static_cast<uint16_t>(0x3F00 + i);
    const std::vector<int64_t> tokens = {9, 0, 3, 3, 1, 2, 8};
    for (Isa isa : supported_isas()) {
        Context context(1, isa);
        std::vector<float> streams(static_cast<size_t>(kRows * 4 * kDim)), mean(static_cast<size_t>(kRows * kDim));
        embed_rows(context, {table.data(), tokens.data(), streams.data(), kRows, 4, kDim, false, false});
        stream_mean(context, {streams.data(), mean.data(), kRows, 4, kDim, false});
        for (int64_t i = 0; i < kRows * kDim; ++i)
            CHECK(mean[static_cast<size_t>(i)] ==
                  table[static_cast<size_t>(tokens[static_cast<size_t>(i / kDim)] * kDim + i % kDim)]);
        embed_rows(context, {half.data(), tokens.data(), mean.data(), kRows, 1, kDim, true, true});
        for (int64_t i = 0; i < kRows * kDim; ++i) {
            const uint32_t bits =
                static_cast<uint32_t>(
                    half[static_cast<size_t>(tokens[static_cast<size_t>(i / kDim)] * kDim + i % kDim)])
                << 16;
            float want;
            std::memcpy(&want, &bits, sizeof want);
            CHECK(mean[static_cast<size_t>(i)] == want);
        }
    }
}

TEST_CASE("too many streams are refused") {
    Context context(1, Isa::kScalar);
    CHECK_THROWS_AS(hc_mix(context, {.num_streams = 17}), std::invalid_argument);
    CHECK_THROWS_AS(hc_read(context, {.num_streams = 17}), std::invalid_argument);
    CHECK_THROWS_AS(hc_write(context, {.num_streams = 0}), std::invalid_argument);
    CHECK_THROWS_AS(stream_mean(context, {.num_streams = 17}), std::invalid_argument);
}
