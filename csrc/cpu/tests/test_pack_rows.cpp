#include "cpu/ops/pack_rows.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "cpu/kernel_table.hpp"
#include "cpu/tests/all_isas.hpp"
#include "cpu/tests/random_weights.hpp"

using namespace deepinfer::cpu;

namespace {

constexpr int64_t kColumns = 64, kRows = 3;

bool pack(const KernelTable& kernels, const std::vector<float>& x, std::vector<uint16_t>& out) {
    out.assign(static_cast<size_t>(kRows * kColumns), 0);
    return kernels.pack_rows({x.data(), kColumns, out.data(), kColumns, kColumns}, {0, kRows});
}

// Of a bf16 value.
uint32_t word_of(float value) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return bits >> 16;
}

}  // namespace

TEST_CASE(
    "columns i and i + 16 of 32 are packed as a pair, every fourth pair in a row; only rows of bf16 values in range "
    "are") {
    for (Isa isa : supported_isas()) {
        const KernelTable& kernels = kernel_table(isa);
        if (kernels.pack_rows == nullptr) continue;
        std::vector<uint16_t> words;
        std::vector<float> x = random_bf16(kRows * kColumns, 1);
        x[40] = 0.0f, x[70] = -0.0f, x[90] = std::ldexp(1.0f, -56), x[91] = std::ldexp(-1.9921875f, 63);
        REQUIRE(pack(kernels, x, words));
        for (size_t group = 0; group < x.size(); group += 32) {
            for (size_t place = 0; place < 16; ++place) {
                const size_t column = group + place % 4 * 4 + place / 4;
                CHECK(words[group + 2 * place + 1] == word_of(x[column]));
                CHECK(words[group + 2 * place] == word_of(x[column + 16]));
            }
        }
        const float infinity = std::numeric_limits<float>::infinity();
        for (float odd : {1.0f + 0x1p-8f, 0x1p-57f, 0x1p64f, -0x1p-140f, infinity, std::nanf("")}) {
            std::vector<float> other = x;
            other[100] = odd;
            CHECK_FALSE(pack(kernels, other, words));
        }
    }
}
