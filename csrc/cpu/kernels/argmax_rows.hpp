// Kernel of ops/argmax_rows.hpp.
#pragma once

#include "cpu/kernels/exact_math.hpp"
#include "cpu/kernels/lanes.hpp"
#include "cpu/ops/argmax_rows.hpp"
#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

// Largest of n values; `has_nan` says whether one is NaN (and the result of no use).
inline float row_maximum(const float* x, int64_t n, bool& has_nan) {
    F32x16 largest = F32x16::set(-kInfinity), spare = largest;
    Mask16 ordered = largest == largest;
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) {
        const F32x16 a = F32x16::load(x + i), b = F32x16::load(x + i + 16);
        ordered = ordered & (a == a) & (b == b);
        largest = F32x16::max(largest, a);
        spare = F32x16::max(spare, b);
    }
    for (; i < n; i += 16) {
        const F32x16 a = load_or(x + i, lanes_left(n, i), -kInfinity);
        ordered = ordered & (a == a);
        largest = F32x16::max(largest, a);
    }
    has_nan = ordered.bits() != 0xFFFFu;
    return F32x16::max(largest, spare).max_lane();
}

// Lowest place of `value`, n if it is nowhere.
inline int64_t find_value(const float* x, int64_t n, float value) {
    const F32x16 wanted = F32x16::set(value);
    for (int64_t i = 0; i < n; i += 16) {
        const int lanes = lanes_left(n, i);
        const uint32_t found = (F32x16::load(x + i, lanes) == wanted).bits() & ((1u << lanes) - 1u);
        if (found != 0) return i + __builtin_ctz(found);
    }
    return n;
}

inline void argmax_rows(const ArgmaxRowsArgs& args, Range rows) {
    for (int64_t row = rows.begin; row < rows.end; ++row) {
        const float* logits = args.logits + row * args.stride;
        bool has_nan;
        const float largest = row_maximum(logits, args.num_ids, has_nan);
        const bool is_finite = !has_nan && largest > -kInfinity && largest < kInfinity;
        args.tokens[row] = is_finite ? find_value(logits, args.num_ids, largest) : 0;
        if (args.is_finite != nullptr) args.is_finite[row] = is_finite;
    }
}

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
