// Speed of products on one thread: GB/s of weight bytes for few rows, GFLOP/s for many, beside what the machine can do.
// Usage: bench_matmul [isa]
#include <immintrin.h>

#include <cstdio>
#include <vector>

#include "cpu/bench/processor_time.hpp"
#include "cpu/context.hpp"
#include "cpu/ops/matmul.hpp"
#include "cpu/tests/random_weights.hpp"

using namespace deepinfer::cpu;

namespace {

constexpr int kChains = 12;  // more than the latency of a multiply-add in flight
constexpr int kSteps = 1 << 16;

__attribute__((target("avx512f"))) void multiply_add_avx512(float* out) {
    __m512 sums[kChains];  // all different, or the compiler makes one of them
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
    const __m512 x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(1e-3f);
    for (int step = 0; step < kSteps; ++step)
#pragma GCC unroll 12
        for (__m512& sum : sums) sum = _mm512_fmadd_ps(sum, x, y);
    for (const __m512& sum : sums) _mm512_storeu_ps(out, _mm512_add_ps(_mm512_loadu_ps(out), sum));
}

__attribute__((target("avx2,fma"))) void multiply_add_avx2(float* out) {
    __m256 sums[kChains];  // all different, or the compiler makes one of them
    for (int i = 0; i < kChains; ++i) sums[i] = _mm256_set1_ps(static_cast<float>(i));
    const __m256 x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(1e-3f);
    for (int step = 0; step < kSteps; ++step)
#pragma GCC unroll 12
        for (__m256& sum : sums) sum = _mm256_fmadd_ps(sum, x, y);
    for (const __m256& sum : sums) _mm256_storeu_ps(out, _mm256_add_ps(_mm256_loadu_ps(out), sum));
}

// Fused multiply-adds on registers alone; 0 where the instruction set has none.
double peak_gflops(Isa isa) {
    float out[16] = {};
    const double flops = 2.0 * kChains * kSteps;
    if (isa == Isa::kAvx512) return 16 * flops / seconds([&] { multiply_add_avx512(out); }) * 1e-9;
    if (isa == Isa::kAvx2) return 8 * flops / seconds([&] { multiply_add_avx2(out); }) * 1e-9;
    return 0.0;
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
    std::printf("%s\nread bandwidth %.1f GB/s, peak of multiply-adds %.1f GFLOP/s\n", isa_name(context.isa()).data(),
                read_gigabytes(context), peak_gflops(context.isa()));
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
