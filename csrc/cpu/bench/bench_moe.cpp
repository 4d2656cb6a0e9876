// Speed of a mixture of experts on one thread: FP4 routed experts and one FP8 shared expert, everyone equally likely.
// Usage: bench_moe [isa [dim hidden experts top_k]]
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "cpu/bench/processor_time.hpp"
#include "cpu/context.hpp"
#include "cpu/ops/moe.hpp"
#include "cpu/tests/random_weights.hpp"

using namespace deepinfer::cpu;

int main(int argc, char** argv) {
    const auto number = [&](int i, int64_t usual) { return argc > i ? int64_t{std::atoi(argv[i])} : usual; };
    const int64_t dim = number(2, 256), hidden = number(3, 192), experts = number(4, 16), top_k = number(5, 2);
    Context context(1, parse_isa(argc > 1 ? argv[1] : "auto"));
    const auto routed = WeightFormat::kFp4Row32, shared = WeightFormat::kFp8Block32;
    const RandomWeights w1(routed, experts, hidden, dim, 1), w3(routed, experts, hidden, dim, 2);
    const RandomWeights w2(routed, experts, dim, hidden, 3);
    const RandomWeights s1(shared, 1, hidden, dim, 4), s3(shared, 1, hidden, dim, 5), s2(shared, 1, dim, hidden, 6);
    for (int64_t rows : {1, 2, 4, 6, 16, 64, 256, 2048}) {
        const std::vector<float> x = random_bf16(rows * dim, 7), weights = random_floats(rows * top_k, 8);
        std::vector<int64_t> ids;
        std::mt19937 random(9);
        for (int64_t i = 0; i < rows * top_k; ++i) ids.push_back(random() % static_cast<uint64_t>(experts));
        std::vector<float> out(static_cast<size_t>(rows * dim));
        MoeArgs args{.x = x.data(),
                     .x_stride = dim,
                     .ids = ids.data(),
                     .weights = weights.data(),
                     .w1 = w1.stack,
                     .w3 = w3.stack,
                     .w2 = w2.stack,
                     .shared_w1 = s1.stack.first,
                     .shared_w3 = s3.stack.first,
                     .shared_w2 = s2.stack.first,
                     .out = out.data(),
                     .out_stride = dim,
                     .num_rows = rows,
                     .top_k = top_k,
                     .limit = 10.0f,
                     .quantizes = true,
                     .rounds_bf16 = true};
        std::vector<float> scratch(static_cast<size_t>(moe_scratch_floats(args)));
        args.scratch = scratch.data();
        const double time = seconds([&] { moe(context, args); });
        const double flops = 2.0 * static_cast<double>(rows * (top_k + 1) * 3 * dim * hidden);
        std::printf("rows %5ld  %10.2f us  %8.2f GFLOP/s\n", static_cast<long>(rows), time * 1e6, flops / time * 1e-9);
    }
}
