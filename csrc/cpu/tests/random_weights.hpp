// Random operands of products, and the values of weights decoded from the formats' definitions.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "cpu/ops/weight_matrix.hpp"

namespace deepinfer::cpu {

inline std::vector<float> random_floats(int64_t count, uint32_t seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = normal(random);
    return values;
}

// Likewise, bf16 values.
inline std::vector<float> random_bf16(int64_t count, uint32_t seed) {
    std::vector<float> values = random_floats(count, seed);
    for (float& value : values) {
        uint32_t bits = 0;
        std::memcpy(&bits, &value, sizeof bits);
        bits &= 0xFFFF0000u;
        std::memcpy(&value, &bits, sizeof bits);
    }
    return values;
}

// A stack of matrices of one format and what they point to.
struct RandomWeights {
    RandomWeights(WeightFormat format, int64_t count, int64_t num_out, int64_t num_in, uint32_t seed)
        : stack{{format, nullptr, nullptr, num_out, num_in}, count} {
        std::mt19937 random(seed);
        data.resize(static_cast<size_t>(count * stack.first.data_bytes()));
        scales.resize(static_cast<size_t>(count * stack.first.scale_bytes()));
        for (uint8_t& byte : data) byte = static_cast<uint8_t>(random());
        for (uint8_t& scale : scales) scale = static_cast<uint8_t>(112 + random() % 6);
        if (format == WeightFormat::kFp8Block32)
            for (uint8_t& code : data) code = (code & 0x7F) == 0x7F ? 0 : code;
        for (size_t i = 0; format == WeightFormat::kF32 && i < data.size(); i += 4) put_float(random, i, 4);
        for (size_t i = 0; format == WeightFormat::kBf16 && i < data.size(); i += 2) put_float(random, i, 2);
        stack.first.data = data.data();
        stack.first.scales = scales.data();
    }

    static double value(const WeightMatrix& w, int64_t output, int64_t column) {
        const auto* row = static_cast<const uint8_t*>(w.data) + output * w.row_bytes();
        uint32_t bits = 0;
        float value = 0.0f;
        if (w.format == WeightFormat::kF32) std::memcpy(&bits, row + 4 * column, 4);
        if (w.format == WeightFormat::kBf16) std::memcpy(reinterpret_cast<uint8_t*>(&bits) + 2, row + 2 * column, 2);
        std::memcpy(&value, &bits, 4);
        if (w.scale_bytes() == 0) return value;
        if (w.format == WeightFormat::kFp8Block32)
            return value_e4m3(row[column]) * scale(w.scales[output / 32 * w.scales_per_row() + column / 32]);
        const int code = row[column / 2] >> (column % 2 * 4) & 15;
        constexpr double kMagnitudes[8] = {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0};
        return (code & 8 ? -1 : 1) * kMagnitudes[code & 7] * scale(w.scales[output * w.scales_per_row() + column / 32]);
    }

    std::vector<uint8_t> data, scales;
    WeightStack stack;

  private:
    static double scale(int byte) { return std::ldexp(1.0, byte - 127); }
    static double value_e4m3(int code) {
        const int exponent = code >> 3 & 15, mantissa = code & 7;
        const double magnitude = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 7 - 3);
        return code & 0x80 ? -magnitude : magnitude;
    }
    // The upper `size` bytes of a float32.
    void put_float(std::mt19937& random, size_t at, size_t size) {
        const float value = std::normal_distribution<float>()(random);
        std::memcpy(&data[at], reinterpret_cast<const uint8_t*>(&value) + 4 - size, size);
    }
};

}  // namespace deepinfer::cpu
