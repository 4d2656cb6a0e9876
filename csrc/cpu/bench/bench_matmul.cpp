// Speed of products on one thread: GB/s of weight bytes for few rows, GFLOP/s for many, beside what the machine can do.
// Usage: bench_matmul [isa]
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <functional>
#include <vector>

#include "cpu/context.hpp"
#include "cpu/ops/matmul.hpp"
#include "cpu/tests/random_weights.hpp"

using namespace deepinfer::cpu;

namespace {

double cpu_seconds() {
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Processor time of one call, the least of several measurements: other jobs of the machine count little.
double seconds(const std::function<void()>& call) {
    const auto measure = [&](int repeats) {
        const double begin = cpu_seconds();
        for (int i = 0; i < repeats; ++i) call();
        return cpu_seconds() - begin;
    };
    int repeats = 1;
    while (measure(repeats) < 0.005 && repeats < 1 << 24) repeats *= 2;
    double least = measure(repeats);
    for (int i = 0; i < 10; ++i) least = std::min(least, measure(repeats));
    return least / repeats;
}

// A dot product of 16 accumulators of one vector with data that lies in the first cache: bound by fused multiply-adds.
double peak_gflops(Context& context) {
    const RandomWeights weights(WeightFormat::kF32, 1, 4, 512, 1);
    const std::vector<float> x = random_floats(6 * 512, 1);
    std::vector<float> out(24);
    const MatmulArgs args{.x = x.data(),
                          .x_stride = 512,
                          .weight = weights.stack.first,
                          .out = out.data(),
                          .out_stride = 4,
                          .num_rows = 6};
    return 2.0 * 6 * 4 * 512 / seconds([&] { matmul(context, args); }) * 1e-9;
}

double read_gigabytes(Context& context) {
    const int64_t n = int64_t{1} << 26;
    const std::vector<float> data(static_cast<size_t>(n), 1.0f);
    const std::vector<float> x(4096, 1.0f);
    std::vector<float> out(static_cast<size_t>(n / 4096));
    const MatmulArgs args{.x = x.data(),
                          .x_stride = 4096,
                          .weight = {WeightFormat::kF32, data.data(), nullptr, n / 4096, 4096},
                          .out = out.data(),
                          .out_stride = n / 4096,
                          .num_rows = 1};
    return 4.0 * static_cast<double>(n) / seconds([&] { matmul(context, args); }) * 1e-9;
}

void measure(Context& context, WeightFormat format, const char* name, int64_t n, int64_t k) {
    const RandomWeights weights(format, 1, n, k, 1);
    for (int64_t rows : {1, 2, 4, 5, 16, 64, 512}) {
        const std::vector<float> x = random_floats(rows * k, 1);
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
    std::printf("%s\nread bandwidth %.1f GB/s, kernel on cached f32 data %.1f GFLOP/s\n",
                isa_name(context.isa()).data(), read_gigabytes(context), peak_gflops(context));
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
