#include "cpu/ops/rms_norm.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "cpu/context.hpp"
#include "cpu/tests/all_isas.hpp"

using namespace deepinfer::cpu;

TEST_CASE("rms_norm matches the formula and is equal bit for bit on every instruction set") {
    const int64_t rows = 5;
    for (int64_t dim : {1, 15, 16, 37}) {
        std::vector<float> x(static_cast<size_t>(rows * dim)), weight(static_cast<size_t>(dim));
        for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7919 % 1000) / 333.0f - 1.5f;
        for (size_t i = 0; i < weight.size(); ++i) weight[i] = 1.0f + 0.01f * static_cast<float>(i);
        std::vector<float> first;
        for (Isa isa : supported_isas()) {
            Context context(2, isa);
            std::vector<float> out(x.size());
            rms_norm(context, {x.data(), weight.data(), out.data(), rows, dim, 1e-6f, false});
            if (first.empty()) first = out;
            CHECK(out == first);
        }
        for (int64_t row = 0; row < rows; ++row) {
            double squares = 0.0;
            for (int64_t i = 0; i < dim; ++i) squares += std::pow(x[static_cast<size_t>(row * dim + i)], 2);
            const double factor = 1.0 / std::sqrt(squares / static_cast<double>(dim) + 1e-6);
            for (int64_t i = 0; i < dim; ++i) {
                const auto at = static_cast<size_t>(row * dim + i);
                CHECK(first[at] == doctest::Approx(x[at] * factor * weight[static_cast<size_t>(i)]).epsilon(1e-6));
            }
        }
    }
}
