// Reads the weights of one output or of some, 32 columns at a time, as the values they stand for.
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
            read(k, scale(k), a, b);
        } else {
            F32x16::load_e2m1(data_ + k / 2, kScaledE2m1.values[scales_[k / 32]], a, b);
        }
    }

    const uint8_t* data() const { return data_; }

    // FP8 only: the scale of column k times 2^8, `read` with it, and `read` without: values times 2^-8.
    F32x16 scale(int64_t k) const { return F32x16::set(kE8m0Times256.values[scales_[k / 32]]); }
    void read(int64_t k, F32x16 scale, F32x16& a, F32x16& b) const {
        read_unscaled(k, a, b);
        a = a * scale;
        b = b * scale;
    }
    void read_unscaled(int64_t k, F32x16& a, F32x16& b) const {
        a = F32x16::load_e4m3(data_ + k);
        b = F32x16::load_e4m3(data_ + k + 16);
    }
    void read_unscaled(int64_t k, int n, F32x16& a, F32x16& b) const {
        const int low = n < 16 ? n : 16, high = n - low;
        a = F32x16::load_e4m3(data_ + k, low);
        b = F32x16::load_e4m3(data_ + k + low, high);
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
            read_unscaled(k, n, a, b);
            a = a * scale(k);
            b = b * scale(k);
        } else {
            F32x16::load_e2m1(data_ + k / 2, n / 2, kScaledE2m1.values[scales_[k / 32]], a, b);
        }
    }

  private:
    const float* floats(int64_t k) const { return reinterpret_cast<const float*>(data_) + k; }
    const uint16_t* words(int64_t k) const { return reinterpret_cast<const uint16_t*>(data_) + k; }

    const uint8_t* data_ = nullptr;
    const uint8_t* scales_ = nullptr;
};

// kNum outputs from `first` on; for FP8 they must have one tile in common (`share_a_tile`), whose scale is read once,
// or not at all where the rows are multiplied by it instead (kHasScaledRows, see scaled_rows.hpp).
template <WeightFormat kFormat, int kNum, bool kHasScaledRows = false>
class WeightBlock {
  public:
    WeightBlock(const WeightMatrix& weight, int64_t first) {
#pragma GCC unroll 8
        for (int i = 0; i < kNum; ++i) rows_[i] = WeightRow<kFormat>(weight, first + i);
    }

    // Asks for the codes of the outputs behind these, if they are few: long rows the processor foresees itself.
    void fetch_next(const WeightMatrix& weight) const {
        const int64_t size = kNum * weight.row_bytes();
        if (size > kMostFetched) return;
        const uint8_t* next = rows_[0].data() + size;
        for (int64_t i = 0; i < size; i += 64) __builtin_prefetch(next + i);
    }

    static bool share_a_tile(int64_t first) { return kFormat != WeightFormat::kFp8Block32 || first % 32 + kNum <= 32; }

    // Columns k to k + 31 of all outputs, one after the other: use(i, a, b).
    template <typename Use>
    void read(int64_t k, const Use& use) const {
        F32x16 scale = F32x16::zero();
        if constexpr (kFormat == WeightFormat::kFp8Block32 && !kHasScaledRows) scale = rows_[0].scale(k);
#pragma GCC unroll 8
        for (int i = 0; i < kNum; ++i) {
            F32x16 a, b;
            if constexpr (kHasScaledRows)
                rows_[i].read_unscaled(k, a, b);
            else if constexpr (kFormat == WeightFormat::kFp8Block32)
                rows_[i].read(k, scale, a, b);
            else
                rows_[i].read(k, a, b);
            use(i, a, b);
        }
    }

    // The last n of them, 1 to 31, and zeros.
    template <typename Use>
    void read(int64_t k, int n, const Use& use) const {
#pragma GCC unroll 8
        for (int i = 0; i < kNum; ++i) {
            F32x16 a, b;
            if constexpr (kHasScaledRows)
                rows_[i].read_unscaled(k, n, a, b);
            else
                rows_[i].read(k, n, a, b);
            use(i, a, b);
        }
    }

  private:
    static constexpr int64_t kMostFetched = 8192;

    WeightRow<kFormat> rows_[kNum];
};

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
