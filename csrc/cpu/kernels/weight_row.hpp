// Reads the weights of one output, 32 columns at a time, as the values they stand for.
#pragma once

#include "cpu/kernels/e8m0.hpp"
#include "cpu/ops/row_product.hpp"
#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

// read(k, a, b): columns k to k + 31, k a multiple of 32; read(k, n, a, b): n of them, 1 to 31, and zeros. FP4 gives
// the even columns in `a` and the odd ones in `b`, the others give columns in order.
template <WeightFormat kFormat>
class WeightRow {
  public:
    WeightRow() = default;
    WeightRow(const WeightMatrix& weight, int64_t output)
        : data_(static_cast<const uint8_t*>(weight.data) + output * weight.row_bytes()) {
        if constexpr (kFormat == WeightFormat::kFp8Block32)
            scales_ = weight.scales + output / 32 * weight.scales_per_row();
        if constexpr (kFormat == WeightFormat::kFp4Row32) scales_ = weight.scales + output * weight.scales_per_row();
    }

    void read(int64_t k, F32x16& a, F32x16& b) const {
        if constexpr (kFormat == WeightFormat::kF32) {
            a = F32x16::load(floats(k));
            b = F32x16::load(floats(k) + 16);
        } else if constexpr (kFormat == WeightFormat::kBf16) {
            a = F32x16::load_bf16(words(k));
            b = F32x16::load_bf16(words(k) + 16);
        } else if constexpr (kFormat == WeightFormat::kFp8Block32) {
            const F32x16 scale = F32x16::set(kE8m0Times256.values[scales_[k / 32]]);
            a = F32x16::load_e4m3(data_ + k) * scale;
            b = F32x16::load_e4m3(data_ + k + 16) * scale;
        } else {
            F32x16::load_e2m1(data_ + k / 2, F32x16::set(kE8m0.values[scales_[k / 32]]), a, b);
        }
    }

    void read(int64_t k, int n, F32x16& a, F32x16& b) const {
        const int low = n < 16 ? n : 16, high = n - low;
        if constexpr (kFormat == WeightFormat::kF32) {
            a = F32x16::load(floats(k), low);
            b = F32x16::load(floats(k) + low, high);
        } else if constexpr (kFormat == WeightFormat::kBf16) {
            a = F32x16::load_bf16(words(k), low);
            b = F32x16::load_bf16(words(k) + low, high);
        } else if constexpr (kFormat == WeightFormat::kFp8Block32) {
            const F32x16 scale = F32x16::set(kE8m0Times256.values[scales_[k / 32]]);
            a = F32x16::load_e4m3(data_ + k, low) * scale;
            b = F32x16::load_e4m3(data_ + k + low, high) * scale;
        } else {
            F32x16::load_e2m1(data_ + k / 2, n / 2, F32x16::set(kE8m0.values[scales_[k / 32]]), a, b);
        }
    }

  private:
    const float* floats(int64_t k) const { return reinterpret_cast<const float*>(data_) + k; }
    const uint16_t* words(int64_t k) const { return reinterpret_cast<const uint16_t*>(data_) + k; }

    const uint8_t* data_ = nullptr;
    const uint8_t* scales_ = nullptr;
};

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
