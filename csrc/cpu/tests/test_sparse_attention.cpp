#include "cpu/ops/sparse_attention.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "cpu/context.hpp"
#include "cpu/ops/decode_vectors.hpp"
#include "cpu/ops/encode_vectors.hpp"
#include "cpu/tests/all_isas.hpp"
#include "cpu/tests/random_weights.hpp"

using namespace deepinfer::cpu;

namespace {

constexpr int64_t kRows = 5, kHeads = 6, kDim = 70, kWindow = 9, kPicks = 4, kBlocks = 3, kPerBlock = 8;

// Five rows of two sequences, whose entries are in paged caches.
struct Case {
    std::vector<float> q = random_floats(kRows * kHeads * kDim, 1), window = random_floats(20 * kDim, 2);
    std::vector<float> sink = random_floats(kHeads, 3), plain = random_floats(kBlocks * kPerBlock * kDim, 4);
    std::vector<int64_t> window_index, picks, row_view = {0, 0, 1, 1, 0};
    std::vector<int32_t> tables = {2, 0, 1, 2};

    Case() {
        for (int64_t i = 0; i < kRows * kWindow; ++i) window_index.push_back(i % 4 == 0 ? -1 : i * 7 % 20);
        for (int64_t i = 0; i < kRows * kPicks; ++i) picks.push_back(i % 5 == 0 ? -1 : i * 5 % (2 * kPerBlock));
    }

    std::vector<float> run(Context& context, const std::vector<uint8_t>& cache, VectorRounding rounding) {
        const int64_t bytes = packed_bytes(rounding, kDim);
        const EntryView views[2] = {{cache.data(), tables.data(), kPerBlock, bytes},
                                    {cache.data(), tables.data() + 2, kPerBlock, bytes}};
        std::vector<float> out(q.size());
        sparse_attention(context, {.q = q.data(),
                                   .window = window.data(),
                                   .window_index = window_index.data(),
                                   .views = views,
                                   .row_view = row_view.data(),
                                   .picks = picks.data(),
                                   .sink = sink.data(),
                                   .out = out.data(),
                                   .entry_rounding = rounding,
                                   .num_rows = kRows,
                                   .num_heads = kHeads,
                                   .dim = kDim,
                                   .window_size = kWindow,
                                   .num_picks = kPicks,
                                   .scale = 0.2f});
        return out;
    }

    const float* entry(const std::vector<float>& values, int64_t row, int64_t pick) const {
        const int64_t block = tables[static_cast<size_t>(2 * row_view[static_cast<size_t>(row)] + pick / kPerBlock)];
        return values.data() + (block * kPerBlock + pick % kPerBlock) * kDim;
    }

    // One output in double.
    double expected(const std::vector<float>& values, int64_t row, int64_t head, int64_t column) const {
        double total = std::exp(sink[static_cast<size_t>(head)]), sum = 0.0;
        const auto add = [&](const float* key) {
            double dot = 0.0;
            for (int64_t k = 0; k < kDim; ++k)
                dot += double{q[static_cast<size_t>((row * kHeads + head) * kDim + k)]} * key[k];
            total += std::exp(0.2 * dot);
            sum += std::exp(0.2 * dot) * key[column];
        };
        for (int64_t i = row * kWindow; i < (row + 1) * kWindow; ++i)
            if (window_index[static_cast<size_t>(i)] >= 0)
                add(window.data() + window_index[static_cast<size_t>(i)] * kDim);
        for (int64_t i = row * kPicks; i < (row + 1) * kPicks; ++i)
            if (picks[static_cast<size_t>(i)] >= 0) add(entry(values, row, picks[static_cast<size_t>(i)]));
        return sum / total;
    }
};

}  // namespace

TEST_CASE("sparse_attention reads paged caches of every format, equal on every instruction set") {
    Case operands;
    for (auto rounding : {VectorRounding::kNone, VectorRounding::kFp8Group32, VectorRounding::kFp4Group16}) {
        std::vector<uint8_t> cache(static_cast<size_t>(kBlocks * kPerBlock * packed_bytes(rounding, kDim)));
        std::vector<float> values(operands.plain.size());
        std::vector<float> first;
        for (Isa isa : supported_isas()) {
            Context context(2, isa);
            const int64_t bytes = packed_bytes(rounding, kDim);
            encode_vectors(context, {.x = operands.plain.data(),
                                     .x_stride = kDim,
                                     .out = cache.data(),
                                     .out_stride = bytes,
                                     .num_rows = kBlocks * kPerBlock,
                                     .dim = kDim,
                                     .rounding = rounding});
            decode_vectors(context, {.data = cache.data(),
                                     .data_stride = bytes,
                                     .out = values.data(),
                                     .out_stride = kDim,
                                     .num_rows = kBlocks * kPerBlock,
                                     .dim = kDim,
                                     .rounding = rounding});
            const std::vector<float> out = operands.run(context, cache, rounding);
            if (first.empty()) first = out;
            CHECK(out == first);
        }
        double worst = 0.0;
        for (int64_t i = 0; i < kRows * kHeads * kDim; ++i) {
            const double want = operands.expected(values, i / kDim / kHeads, i / kDim % kHeads, i % kDim);
            worst = std::max(worst, std::abs(want - first[static_cast<size_t>(i)]));
        }
        CHECK(worst < 3e-6);
    }
}
