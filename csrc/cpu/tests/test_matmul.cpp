#include "cpu/ops/matmul.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "cpu/context.hpp"
#include "cpu/ops/round_vectors.hpp"
#include "cpu/tests/all_isas.hpp"
#include "cpu/tests/random_weights.hpp"

using namespace deepinfer::cpu;

namespace {

constexpr WeightFormat kFormats[] = {WeightFormat::kF32, WeightFormat::kBf16, WeightFormat::kFp8Block32,
                                     WeightFormat::kFp4Row32};

std::vector<float> product(Context& context, MatmulArgs args, int64_t num_rows, int64_t first_row = 0) {
    std::vector<float> out(static_cast<size_t>(num_rows * args.weight.num_out));
    args.x += first_row * args.x_stride;
    args.num_rows = num_rows;
    args.out = out.data();
    args.out_stride = args.weight.num_out;
    std::vector<float> scratch(static_cast<size_t>(matmul_scratch_floats(args)));
    args.scratch = scratch.data();
    matmul(context, args);
    return out;
}

void check_formula(const MatmulArgs& args, const std::vector<float>& out, int64_t num_rows) {
    const int64_t per_group = args.weight.num_out / args.num_groups;
    for (int64_t t = 0; t < num_rows; ++t) {
        for (int64_t n = 0; n < args.weight.num_out; ++n) {
            const float* x = args.x + t * args.x_stride + n / per_group * args.weight.num_in;
            double sum = 0.0, magnitude = 0.0;
            for (int64_t k = 0; k < args.weight.num_in; ++k) {
                const double term = x[k] * RandomWeights::value(args.weight, n, k);
                sum += term;
                magnitude += std::abs(term);
            }
            CHECK(std::abs(out[static_cast<size_t>(t * args.weight.num_out + n)] - sum) <= 1e-6 * magnitude);
        }
    }
}

}  // namespace

TEST_CASE("products match the formula, with the same bits for 1 to 40 rows, any threads and instruction set") {
    const struct {
        int64_t k, n;
    } sizes[] = {{1, 1}, {34, 37}, {64, 5}, {120, 70}, {258, 3}};
    for (WeightFormat format : kFormats) {
        for (auto [k, n] : sizes) {
            k += format == WeightFormat::kFp4Row32 ? k % 2 : 0;
            const RandomWeights weights(format, 1, n, k, 7);
            const std::vector<float> x = random_floats(40 * (k + 3), 1);
            const MatmulArgs args{.x = x.data(), .x_stride = k + 3, .weight = weights.stack.first};
            Context best(3, best_isa());
            const std::vector<float> want = product(best, args, 40);
            check_formula(args, want, 40);
            for (int64_t rows = 1; rows < 40; ++rows) {
                const std::vector<float> part = product(best, args, rows, 40 - rows);
                CHECK(part == std::vector<float>(want.end() - rows * n, want.end()));
            }
            for (Isa isa : supported_isas()) {
                Context context(1, isa);
                CHECK(product(context, args, 40) == want);
                CHECK(product(context, args, 2) == std::vector<float>(want.begin(), want.begin() + 2 * n));
            }
        }
    }
}

TEST_CASE("rows of bf16 values: the same bits for any rows, threads and instruction set") {
    const struct {
        int64_t k, n;
    } sizes[] = {{30, 37}, {64, 21}, {96, 70}, {130, 35}};
    for (WeightFormat format : kFormats) {
        for (auto [k, n] : sizes) {
            const RandomWeights weights(format, 1, n, k, 9);
            const std::vector<float> x = random_bf16(21 * k, 4);
            MatmulArgs args{.x = x.data(), .x_stride = k, .weight = weights.stack.first};
            Context plain(1, Isa::kScalar);
            const std::vector<float> want = product(plain, args, 21);
            check_formula(args, want, 21);
            args.rounds_bf16 = true;
            const std::vector<float> rounded = product(plain, args, 21);
            for (Isa isa : supported_isas()) {
                Context context(2, isa);
                for (int64_t rows = 1; rows <= 21; ++rows) {
                    args.rounds_bf16 = rows % 2 == 0;
                    const std::vector<float>& all = args.rounds_bf16 ? rounded : want;
                    CHECK(product(context, args, rows, 21 - rows) ==
                          std::vector<float>(all.end() - rows * n, all.end()));
                }
            }
        }
    }
}

TEST_CASE("groups, quantized rows and rounded results") {
    Context context(2, best_isa());
    const int64_t rows = 9, groups = 3, per_group = 20, k = 48;  // groups that begin inside a tile of 32 outputs
    for (WeightFormat format : kFormats) {
        const RandomWeights weights(format, 1, groups * per_group, k, 3);
        const std::vector<float> x = random_floats(rows * groups * k, 2);
        MatmulArgs args{.x = x.data(), .x_stride = groups * k, .weight = weights.stack.first, .num_groups = groups};
        const std::vector<float> plain = product(context, args, rows);
        check_formula(args, plain, rows);

        args.rounds_bf16 = true;
        const std::vector<float> coarse = product(context, args, rows);
        for (size_t i = 0; i < plain.size(); ++i) {
            CHECK(std::abs(coarse[i] - plain[i]) <= std::abs(plain[i]) / 256);
            CHECK(std::fmod(std::ldexp(coarse[i], 7 - std::ilogb(coarse[i])), 1.0f) == 0.0f);  // 8 bits of mantissa
        }

        args.rounds_bf16 = false;
        args.quantizes_x = true;
        std::vector<float> rounded(x.size());
        round_vectors(context, {x.data(), k, rounded.data(), k, rows * groups, k, VectorRounding::kFp8Group32});
        const std::vector<float> quantized = product(context, args, rows);
        args.x = rounded.data();
        args.quantizes_x = false;
        CHECK(quantized == product(context, args, rows));
    }
}

TEST_CASE("scales at the ends of their range") {
    const int64_t k = 32, n = 4;
    Context context(1, best_isa());
    for (WeightFormat format : {WeightFormat::kFp8Block32, WeightFormat::kFp4Row32}) {
        for (uint8_t scale : {uint8_t{0}, uint8_t{1}, uint8_t{240}}) {
            RandomWeights weights(format, 1, n, k, 5);
            for (uint8_t& byte : weights.scales) byte = scale;
            std::vector<float> x(static_cast<size_t>(k));  // a single term: exact up to subnormal weights
            x[6] = std::ldexp(1.0f, 127 - scale);
            const MatmulArgs args{.x = x.data(), .x_stride = k, .weight = weights.stack.first};
            const std::vector<float> out = product(context, args, 1);
            for (int64_t i = 0; i < n; ++i) {
                const auto weight = static_cast<float>(RandomWeights::value(args.weight, i, 6));
                CHECK(out[static_cast<size_t>(i)] == weight * x[6]);
            }
        }
        RandomWeights weights(format, 1, n, k, 5);
        for (uint8_t& byte : weights.scales) byte = 255;
        const std::vector<float> x(static_cast<size_t>(k), 1.0f);
        const MatmulArgs args{.x = x.data(), .x_stride = k, .weight = weights.stack.first};
        for (float y : product(context, args, 1)) CHECK(std::isnan(y));
    }
}

namespace {

void check_same(const std::vector<float>& out, const float* want) {
    for (size_t i = 0; i < out.size(); ++i) CHECK((out[i] == want[i] || (std::isnan(out[i]) && std::isnan(want[i]))));
}

}  // namespace

TEST_CASE("one row has the bits of many for every scale and for values at the ends of their range") {
    const int64_t k = 70, n = 45, rows = 8;
    std::vector<float> x = random_bf16(rows * k, 3);
    for (size_t i = 0; i < x.size(); ++i) {  // rows of tiny, of common and of huge values, and of all of them
        const int row = static_cast<int>(i) / static_cast<int>(k);
        x[i] = std::ldexp(x[i], row < 6 ? 48 * row - 130 : static_cast<int>(i % 250) - 130);
    }
    for (WeightFormat format : {WeightFormat::kFp8Block32, WeightFormat::kFp4Row32}) {
        RandomWeights weights(format, 1, n, k, 5);
        for (int scale = 0; scale < 256; ++scale) {
            for (uint8_t& byte : weights.scales) byte = static_cast<uint8_t>(scale);
            const MatmulArgs args{.x = x.data(), .x_stride = k, .weight = weights.stack.first};
            Context plain(1, Isa::kScalar);
            const std::vector<float> want = product(plain, args, rows);
            for (Isa isa : supported_isas()) {
                Context context(1, isa);
                for (int64_t row = 0; row < rows; ++row)
                    check_same(product(context, args, 1, row), want.data() + row * n);
                check_same(product(context, args, rows), want.data());
            }
        }
    }
}
