// Scales that are powers of two.
#pragma once

#include <cstdint>

#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

// 2^(byte - 127 + kShift) of every byte; NaN for 255 and for what float32 cannot hold.
template <int kShift>
struct ScaleTable {
    float values[256];

    constexpr ScaleTable() : values() {
        for (int byte = 0; byte < 256; ++byte) {
            const int exponent = byte + kShift;
            const uint32_t nan = 0x7FC00000u, subnormal = 0x00400000u;
            const uint32_t bits = byte == 255 || exponent > 254 ? nan
                                  : exponent == 0               ? subnormal
                                                                : static_cast<uint32_t>(exponent) << 23;
            values[byte] = __builtin_bit_cast(float, bits);
        }
    }
};

// What the sixteen e2m1 codes stand for under every scale byte: magnitudes 0, 0.5, 1, 1.5, 2, 3, 4 and 6, then the same
// negative. NaN for what ScaleTable has as NaN.
struct ScaledE2m1 {
    alignas(64) float values[256][16];

    constexpr ScaledE2m1() : values() {
        constexpr float kMagnitudes[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
        const ScaleTable<0> scales;
        for (int byte = 0; byte < 256; ++byte) {
            for (int code = 0; code < 8; ++code) {
                const bool overflows = byte >= 253 && kMagnitudes[code] >= (byte == 253 ? 4.0f : 2.0f);
                const float value = byte == 255 ? scales.values[255]
                                    : overflows ? __builtin_inff()
                                                : kMagnitudes[code] * scales.values[byte];
                values[byte][code] = value;
                values[byte][code + 8] = byte == 255 ? value : -value;
            }
        }
    }
};

inline constexpr ScaledE2m1 kScaledE2m1;
inline constexpr ScaleTable<0> kE8m0;
inline constexpr ScaleTable<8> kE8m0Times256;  // for codes loaded by load_e4m3

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
