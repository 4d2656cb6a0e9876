#include "cpu/machine_limits.hpp"

#include <immintrin.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "cpu/ops/matmul.hpp"

namespace deepinfer::cpu {

namespace {

constexpr int kRepeats = 8;
constexpr int kChains = 12;  // more than the latency of a multiply-add in flight
constexpr int kSteps = 1 << 15;
constexpr int64_t kPartsPerThread = 16;

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

double least_seconds(const std::function<void()>& call) {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (int i = 0; i < kRepeats; ++i) {
        const int64_t begin = monotonic_ns();
        call();
        least = std::min(least, monotonic_ns() - begin);
    }
    return 1e-9 * static_cast<double>(std::max<int64_t>(least, 1));
}

double multiply_adds(Context& context) {
    const bool is_wide = context.isa() >= Isa::kAvx512;
    if (context.isa() == Isa::kScalar) return 0.0;
    const int64_t num_parts = kPartsPerThread * context.pool().num_threads();
    const double seconds = least_seconds([&] {
        context.pool().for_ranges(num_parts, 1, [&](Range parts) {
            alignas(64) float out[16] = {};
            for (int64_t part = parts.begin; part < parts.end; ++part)
                is_wide ? multiply_add_avx512(out) : multiply_add_avx2(out);
            [[maybe_unused]] volatile float sink = out[0];  // or nobody would need the sums
        });
    });
    return static_cast<double>(num_parts * (is_wide ? 16 : 8)) * kChains * kSteps / seconds;
}

double read_bytes(Context& context) {
    constexpr int64_t kFloats = int64_t{1} << 26, kColumns = 4096, kRows = kFloats / kColumns;
    const std::vector<float> data(static_cast<size_t>(kFloats), 1.0f), x(static_cast<size_t>(kColumns), 1.0f);
    std::vector<float> out(static_cast<size_t>(kRows));
    const MatmulArgs args{.x = x.data(),
                          .x_stride = kColumns,
                          .weight = {WeightFormat::kF32, data.data(), nullptr, kRows, kColumns},
                          .out = out.data(),
                          .out_stride = kRows,
                          .num_rows = 1};
    return 4.0 * static_cast<double>(kFloats) / least_seconds([&] { matmul(context, args); });
}

}  // namespace

MachineLimits measure_limits(Context& context) {
    return {read_bytes(context), multiply_adds(context)};
}

}  // namespace deepinfer::cpu
