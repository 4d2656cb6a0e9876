// Speed of products on one thread: GB/s of weight bytes for few rows, GFLOP/s for many, beside what the machine can do.
// Usage: bench_matmul [isa]
#include <cstdio>
#include <vector>

#include "cpu/bench/processor_time.hpp"
#include "cpu/context.hpp"
#include "cpu/machine_limits.hpp"
#include "cpu/ops/matmul.hpp"
#include "cpu/tests/random_weights.hpp"

using namespace deepinfer::cpu;

namespace {

void measure(Context& context, WeightFormat format, const char* name, int64_t n, int64_t k) {
    const RandomWeights weights(format, 1, n, k, 1);
    for (int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 64}) {
        const std::vector<float> x = random_bf16(rows * k, 1);
        std::vector<float> out(static_cast<size_t>(rows * n));
        MatmulArgs args{.x = x.data(),
                        .x_stride = k,
                        .weight = weights.stack.first,
                        .out = out.data(),
                        .out_stride = n,
                        .num_rows = rows};
        std::vector<float> scratch(static_cast<size_t>(matmul_scratch_floats(args)));
        args.scratch = scratch.data();
        const double time = seconds([&] { matmul(context, args); });
        const double bytes = static_cast<double>(args.weight.data_bytes() + args.weight.scale_bytes());
        std::printf("%-5s %6ld x %5ld  rows %4ld  %10.2f us  %7.2f GB/s  %8.2f GFLOP/s\n", name, static_cast<long>(n),
                    static_cast<long>(k), static_cast<long>(rows), time * 1e6, bytes / time * 1e-9,
                    2.0 * static_cast<double>(rows * n * k) / time * 1e-9);
    }
}

}  // namespace

int main(int argc, char** argv) {
    Context context(1, parse_isa(argc > 1 ? argv[1] : "auto"));
    const MachineLimits limits = measure_limits(context);
    std::printf("%s\nread bandwidth %.1f GB/s, peak of multiply-adds %.1f GFLOP/s\n", isa_name(context.isa()).data(),
                limits.read_bytes_per_second * 1e-9, 2e-9 * limits.multiply_adds_per_second);
    const struct {
        WeightFormat format;
        const char* name;
    } formats[] = {{WeightFormat::kF32, "f32"},
                   {WeightFormat::kBf16, "bf16"},
                   {WeightFormat::kFp8Block32, "fp8"},
                   {WeightFormat::kFp4Row32, "fp4"}};
    for (auto [format, name] : formats) {
        measure(context, format, name, 192, 256);
        measure(context, format, name, 4096, 256);
        measure(context, format, name, 512, 5120);
    }
}
