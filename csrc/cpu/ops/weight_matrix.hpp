// A weight matrix as the checkpoint stores it. Kernels read it where it lies: never repacked, never densified.
#pragma once

#include <cstdint>

namespace deepinfer::cpu {

// * kF32, kBf16: values, row after row, no scales.
// * kFp8Block32: e4m3 codes, row after row; one E8M0 byte (2^(byte-127)) per 32x32 tile.
// * kFp4Row32: two e2m1 codes a byte, the even column in the low nibble; one E8M0 byte per 32 columns of a row.
// A last tile or run of columns may be partial.
enum class WeightFormat { kF32, kBf16, kFp8Block32, kFp4Row32 };

// A scaled weight, code * scale, is exact, rounded once to float32 where it is subnormal. Two things are not known to
// the kernels, the checkpoint has neither: FP8 scale bytes of 247 (2^120) and more count as NaN, and the NaN codes of
// e4m3 count as 480.
struct WeightMatrix {
    WeightFormat format = WeightFormat::kF32;
    const void* data = nullptr;       // values or codes [num_out, num_in], contiguous, aligned as values are
    const uint8_t* scales = nullptr;  // FP8: [ceil(num_out/32), ceil(num_in/32)]; FP4: [num_out, ceil(num_in/32)]
    int64_t num_out = 0;
    int64_t num_in = 0;  // even for FP4

    int64_t row_bytes() const {
        if (format == WeightFormat::kF32) return 4 * num_in;
        if (format == WeightFormat::kBf16) return 2 * num_in;
        return format == WeightFormat::kFp8Block32 ? num_in : num_in / 2;
    }
    int64_t scales_per_row() const { return (num_in + 31) / 32; }
    int64_t data_bytes() const { return num_out * row_bytes(); }
    int64_t scale_bytes() const {
        if (format == WeightFormat::kFp4Row32) return num_out * scales_per_row();
        return format == WeightFormat::kFp8Block32 ? (num_out + 31) / 32 * scales_per_row() : 0;
    }
};

// Equal matrices one behind the other: codes [count, num_out, num_in], scales likewise.
struct WeightStack {
    WeightMatrix first;
    int64_t count = 0;

    WeightMatrix at(int64_t i) const {
        WeightMatrix matrix = first;
        matrix.data = static_cast<const uint8_t*>(first.data) + i * first.data_bytes();
        if (first.scales != nullptr) matrix.scales = first.scales + i * first.scale_bytes();
        return matrix;
    }
};

}  // namespace deepinfer::cpu
