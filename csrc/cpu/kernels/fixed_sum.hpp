// Exact sums of fixed-point weights.
#pragma once

#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

// Largest integer that is not above x >= 0.
inline F32x16 floor_positive(F32x16 x) {
    const F32x16 rounded = x.round();
    return F32x16::select(x < rounded, rounded - F32x16::set(1.0f), rounded);
}

// Sum of integers in [0, 2^40] that are held as float32: each is split exactly into 20 high and 20 low bits, and both
// are added as 32-bit integers.
class FixedSum {
  public:
    void add(F32x16 weights) {
        const F32x16 high = floor_positive(weights * F32x16::set(0x1p-20f));
        high_ = high_ + high.to_int();
        low_ = low_ + (weights - high * F32x16::set(0x1p20f)).to_int();
        if (++count_ == kMost) flush();
    }

    int64_t total() {
        flush();
        return total_;
    }

  private:
    static constexpr int kMost = 1024;  // of at most 2^20 each: far below 2^31

    void flush() {
        alignas(64) int32_t high[16], low[16];
        high_.store(high);
        low_.store(low);
        for (int i = 0; i < 16; ++i) total_ += static_cast<int64_t>(high[i]) * (1 << 20) + low[i];
        high_ = low_ = I32x16::set(0);
        count_ = 0;
    }

    I32x16 high_ = I32x16::set(0);
    I32x16 low_ = I32x16::set(0);
    int count_ = 0;
    int64_t total_ = 0;
};

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
