#include "cpu/ops/index_scores.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cpu/context.hpp"
#include "cpu/ops/decode_vectors.hpp"
#include "cpu/tests/all_isas.hpp"
#include "cpu/tests/random_weights.hpp"

using namespace deepinfer::cpu;

namespace {

constexpr int64_t kRows = 70, kHeads = 5, kDim = 34, kEntries = 600, kPerBlock = 50;

}  // namespace

TEST_CASE("index_scores reads FP4 keys from a paged cache, equal on every instruction set") {
    const int64_t bytes = packed_bytes(VectorRounding::kFp4Group32, kDim);
    const RandomWeights codes(WeightFormat::kFp4Row32, 1, kEntries, kDim,
                              1);  // codes for the data, scales for the tail
    std::vector<uint8_t> cache;
    for (int64_t i = 0; i < kEntries; ++i) {
        cache.insert(cache.end(), codes.data.begin() + i * kDim / 2, codes.data.begin() + (i + 1) * kDim / 2);
        cache.insert(cache.end(), codes.scales.begin() + i * 2, codes.scales.begin() + (i + 1) * 2);
    }
    std::vector<int32_t> table;
    for (int32_t block = 0; block < kEntries / kPerBlock; ++block) table.push_back(block * 5 % (kEntries / kPerBlock));
    const std::vector<float> q = random_floats(kRows * kHeads * kDim, 2), weights = random_floats(kRows * kHeads, 3);
    std::vector<int64_t> visible, row_view(static_cast<size_t>(kRows), 0);
    for (int64_t row = 0; row < kRows; ++row) visible.push_back(row * 37 % (kEntries + 1));
    const EntryView view{cache.data(), table.data(), kPerBlock, bytes};
    std::vector<float> first, keys(static_cast<size_t>(kEntries * kDim));
    for (Isa isa : supported_isas()) {
        Context context(2, isa);
        decode_vectors(context, {cache.data(), bytes, keys.data(), kDim, kEntries, kDim, VectorRounding::kFp4Group32});
        std::vector<float> out(static_cast<size_t>(kRows * kEntries));
        index_scores(context, {.q = q.data(),
                               .head_weights = weights.data(),
                               .views = &view,
                               .row_view = row_view.data(),
                               .num_visible = visible.data(),
                               .out = out.data(),
                               .key_rounding = VectorRounding::kFp4Group32,
                               .num_rows = kRows,
                               .num_heads = kHeads,
                               .dim = kDim,
                               .num_entries = kEntries,
                               .scale = 0.125f});
        if (first.empty()) first = out;
        CHECK(out == first);
    }
    double worst = 0.0;
    for (int64_t row = 0; row < kRows; ++row) {
        for (int64_t entry = 0; entry < kEntries; ++entry) {
            const float got = first[static_cast<size_t>(row * kEntries + entry)];
            if (entry >= visible[static_cast<size_t>(row)]) {
                CHECK(got == -std::numeric_limits<float>::infinity());
                continue;
            }
            const int64_t place = table[static_cast<size_t>(entry / kPerBlock)] * kPerBlock + entry % kPerBlock;
            double want = 0.0, size = 0.0;
            for (int64_t head = row * kHeads; head < (row + 1) * kHeads; ++head) {
                double dot = 0.0;
                for (int64_t k = 0; k < kDim; ++k)
                    dot +=
                        double{q[static_cast<size_t>(head * kDim + k)]} * keys[static_cast<size_t>(place * kDim + k)];
                want += 0.125 * std::max(dot, 0.0) * weights[static_cast<size_t>(head)];
                size += 0.125 * std::abs(dot * weights[static_cast<size_t>(head)]);
            }
            worst = std::max(worst, std::abs(got - want) / (size + 1e-30));
        }
    }
    CHECK(worst < 2e-6);
}
