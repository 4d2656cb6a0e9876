#include "cpu/ops/moe.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "cpu/context.hpp"
#include "cpu/tests/all_isas.hpp"
#include "cpu/tests/random_weights.hpp"

using namespace deepinfer::cpu;

namespace {

constexpr int64_t kDim = 70, kHidden = 44, kSharedHidden = 60, kExperts = 5, kTopK = 2, kRows = 300;
constexpr float kLimit = 0.5f;

struct Operands {
    explicit Operands(WeightFormat routed, WeightFormat shared)
        : w1(routed, kExperts, kHidden, kDim, 1),
          w3(routed, kExperts, kHidden, kDim, 2),
          w2(routed, kExperts, kDim, kHidden, 3),
          shared_w1(shared, 1, kSharedHidden, kDim, 4),
          shared_w3(shared, 1, kSharedHidden, kDim, 5),
          shared_w2(shared, 1, kDim, kSharedHidden, 6) {
        for (int64_t i = 0; i < kRows; ++i) {  // most rows take expert 0, nobody takes expert 3
            ids.push_back(i % 7 == 0 ? 4 : 0);
            ids.push_back(i % 3 == 0 ? 2 : 1);
        }
    }

    std::vector<float> run(Context& context, int64_t first, int64_t num_rows, bool rounds) const {
        std::vector<float> out(static_cast<size_t>(num_rows * kDim));
        MoeArgs args{.x = x.data() + first * kDim,
                     .x_stride = kDim,
                     .ids = ids.data() + first * kTopK,
                     .weights = weights.data() + first * kTopK,
                     .w1 = w1.stack,
                     .w3 = w3.stack,
                     .w2 = w2.stack,
                     .shared_w1 = shared_w1.stack.first,
                     .shared_w3 = shared_w3.stack.first,
                     .shared_w2 = shared_w2.stack.first,
                     .out = out.data(),
                     .out_stride = kDim,
                     .num_rows = num_rows,
                     .top_k = kTopK,
                     .limit = kLimit,
                     .quantizes = rounds,
                     .rounds_bf16 = rounds};
        std::vector<float> scratch(static_cast<size_t>(moe_scratch_floats(args)));
        args.scratch = scratch.data();
        moe(context, args);
        return out;
    }

    std::vector<double> formula(int64_t t) const {
        std::vector<double> out(kDim);
        for (int64_t rank = 0; rank < kTopK; ++rank) {
            const auto at = static_cast<size_t>(t * kTopK + rank);
            add_expert(t, w1.stack.at(ids[at]), w3.stack.at(ids[at]), w2.stack.at(ids[at]), weights[at], out);
        }
        add_expert(t, shared_w1.stack.first, shared_w3.stack.first, shared_w2.stack.first, 1.0, out);
        return out;
    }

    void add_expert(int64_t t, const WeightMatrix& w1, const WeightMatrix& w3, const WeightMatrix& w2, double weight,
                    std::vector<double>& out) const {
        for (int64_t j = 0; j < w1.num_out; ++j) {
            double gate = 0.0, up = 0.0;
            for (int64_t k = 0; k < kDim; ++k) {
                gate += x[static_cast<size_t>(t * kDim + k)] * RandomWeights::value(w1, j, k);
                up += x[static_cast<size_t>(t * kDim + k)] * RandomWeights::value(w3, j, k);
            }
            gate = std::min<double>(gate, kLimit);
            const double hidden = gate / (1.0 + std::exp(-gate)) * std::clamp<double>(up, -kLimit, kLimit) * weight;
            for (int64_t i = 0; i < kDim; ++i) out[static_cast<size_t>(i)] += hidden * RandomWeights::value(w2, i, j);
        }
    }

    RandomWeights w1, w3, w2, shared_w1, shared_w3, shared_w2;
    std::vector<float> x = random_floats(kRows * kDim, 7), weights = random_floats(kRows * kTopK, 8);
    std::vector<int64_t> ids;
};

}  // namespace

TEST_CASE("moe matches the formula; a row's bits depend on nothing else") {
    const Operands mixed(WeightFormat::kFp4Row32, WeightFormat::kFp8Block32);
    const Operands plain(WeightFormat::kF32, WeightFormat::kFp4Row32);
    for (const Operands* operands : {&mixed, &plain}) {
        for (bool rounds : {false, true}) {
            Context best(3, best_isa());
            const std::vector<float> want = operands->run(best, 0, kRows, rounds);
            for (int64_t t = 0; t < kRows && !rounds; t += 50) {
                const std::vector<double> row = operands->formula(t);
                const double largest = std::abs(*std::max_element(row.begin(), row.end()));
                for (int64_t i = 0; i < kDim; ++i)
                    CHECK(std::abs(want[static_cast<size_t>(t * kDim + i)] - row[static_cast<size_t>(i)]) <=
                          2e-5 * largest);
            }
            for (Isa isa : supported_isas()) {
                Context context(isa == Isa::kScalar ? 1 : 2, isa);
                for (int64_t num_rows : {1, 2, 17, 40}) {
                    const std::vector<float> part = operands->run(context, 11, num_rows, rounds);
                    CHECK(std::equal(part.begin(), part.end(), want.begin() + 11 * kDim));
                }
            }
        }
    }
}

TEST_CASE("an id that is no expert is refused") {
    Operands operands(WeightFormat::kFp4Row32, WeightFormat::kFp8Block32);
    Context context(1, best_isa());
    for (int64_t id : {int64_t{-1}, kExperts}) {
        operands.ids[3] = id;
        CHECK_THROWS_AS(operands.run(context, 0, 2, false), std::out_of_range);
    }
}
