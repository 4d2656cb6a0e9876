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

inline constexpr ScaleTable<0> kE8m0;
inline constexpr ScaleTable<8> kE8m0Times256;  // for codes loaded by load_e4m3

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
