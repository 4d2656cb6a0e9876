// Kernel of ops/pack_rows.hpp.
#pragma once

#include <immintrin.h>

#include "cpu/ops/pack_rows.hpp"
#include "cpu/range.hpp"
#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

// Values that may be multiplied as bf16 pairs are zero or in [2^-56, 2^64): with 8 bits of mantissa all of their
// products, and so all sums of these, are zero or multiples of 2^-126. Bf16 dot products flush what is smaller.
inline constexpr int kLeastExponent = 71, kExponentEnd = 191;  // of float32, biased

// The pair of columns at place d of the 16 (ops/pack_rows.hpp).
constexpr int pair_at(int d) {
    return d % 4 * 4 + d / 4;
}

// A vector's worth of bytes, words or double words.
template <typename T>
struct Lookup {
    alignas(64) T values[64 / sizeof(T)];

    __m512i load() const { return _mm512_load_si512(values); }
};

constexpr Lookup<uint32_t> make_pair_order() {
    Lookup<uint32_t> order = {};
    for (int d = 0; d < 16; ++d) order.values[d] = static_cast<uint32_t>(pair_at(d));
    return order;
}

inline constexpr Lookup<uint32_t> kPairOrder = make_pair_order();

// Whether all words are such values.
inline bool are_in_range(__m512i words) {
    const __m512i magnitudes = _mm512_and_si512(words, _mm512_set1_epi16(0x7FFF));
    const __m512i above = _mm512_sub_epi16(magnitudes, _mm512_set1_epi16(kLeastExponent << 7));
    const __mmask32 inside =
        _mm512_cmplt_epu16_mask(above, _mm512_set1_epi16(static_cast<int16_t>((kExponentEnd - kLeastExponent) << 7)));
    return (inside | _mm512_testn_epi16_mask(magnitudes, magnitudes)) == 0xFFFFFFFFu;
}

// Whether all of them are bf16 values in range; if not, `out` is of no use.
inline bool pack_rows(const PackRowsArgs& args, Range rows) {
    const __m512i order = kPairOrder.load();
    bool fit = true;
    for (int64_t t = rows.begin; t < rows.end; ++t) {
        const float* x = args.x + t * args.x_stride;
        uint16_t* out = args.out + t * args.out_stride;
        for (int64_t k = 0; k < args.num_columns; k += 32) {
            const __m512i a = _mm512_loadu_si512(x + k), b = _mm512_loadu_si512(x + k + 16);
            const __m512i words = _mm512_mask_blend_epi16(0x55555555u, a, _mm512_srli_epi32(b, 16));
            const __mmask16 finer = _mm512_test_epi32_mask(_mm512_or_si512(a, b), _mm512_set1_epi32(0xFFFF));
            fit &= finer == 0 && are_in_range(words);
            _mm512_storeu_si512(out + k, _mm512_permutexvar_epi32(order, words));
        }
    }
    return fit;
}

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
