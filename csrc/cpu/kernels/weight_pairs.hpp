// Weights decoded to the bf16 pairs of ops/pack_rows.hpp: codes look up the bytes or words that they stand for.
#pragma once

#include <immintrin.h>

#include "cpu/kernels/pack_rows.hpp"
#include "cpu/ops/row_product.hpp"
#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

// Scale bytes whose weights are in range of kernels/pack_rows.hpp, times x too.
inline constexpr int kLeastScale = 75, kScaleEnd = 190;

inline constexpr int64_t kMostFetched = 1 << 14;  // bytes

inline bool scales_fit(const uint8_t* scales, int64_t count) {
    __mmask64 outside = 0;
    for (int64_t i = 0; i < count; i += 64) {
        const __mmask64 lanes = count - i < 64 ? (__mmask64{1} << (count - i)) - 1 : ~__mmask64{0};
        const __m512i bytes = _mm512_maskz_loadu_epi8(lanes, scales + i);
        const __m512i above = _mm512_sub_epi8(bytes, _mm512_set1_epi8(kLeastScale));
        outside |= _mm512_mask_cmpge_epu8_mask(lanes, above, _mm512_set1_epi8(kScaleEnd - kLeastScale));
    }
    return outside == 0;
}

// Bf16 values of the 16 e2m1 codes under every scale byte that fits, twice: the fifth bit of an index does not count.
struct E2m1Words {
    alignas(64) uint16_t values[256][32];

    constexpr E2m1Words() : values() {
        constexpr int kMagnitudes[8] = {0, 0x3F00, 0x3F80, 0x3FC0, 0x4000, 0x4040, 0x4080, 0x40C0};
        for (int byte = kLeastScale; byte < kScaleEnd; ++byte) {
            for (int code = 0; code < 32; ++code) {
                const int magnitude = code % 8 == 0 ? 0 : kMagnitudes[code % 8] + (byte - 127) * 128;
                values[byte][code] = static_cast<uint16_t>(magnitude | (code % 16 < 8 ? 0 : 0x8000));
            }
        }
    }
};

// High and low bytes of the bf16 values of the e4m3 codes without sign. Code 0x7F counts as 480.
struct E4m3Bytes {
    alignas(64) uint8_t high[128];
    alignas(64) uint8_t low[128];

    constexpr E4m3Bytes() : high(), low() {
        for (int code = 0; code < 128; ++code) {
            int exponent = code / 8 + 120, mantissa = code % 8;
            if (code > 0 && code < 8) {  // subnormal: mantissa * 2^-9
                for (exponent = 121; mantissa < 8; --exponent) mantissa *= 2;
                mantissa -= 8;
            }
            const int word = code == 0 ? 0 : exponent * 128 + mantissa * 16;
            high[code] = static_cast<uint8_t>(word >> 8);
            low[code] = static_cast<uint8_t>(word & 255);
        }
    }
};

// For 64 codes of two groups, the order from which interleaving low and high bytes makes pairs: every quarter has four
// pairs of the first group and then of the second.
constexpr Lookup<uint8_t> make_e4m3_order() {
    Lookup<uint8_t> order = {};
    for (int i = 0; i < 64; ++i)
        order.values[i] =
            static_cast<uint8_t>(i % 16 / 8 * 32 + (i % 2 == 0 ? 16 : 0) + pair_at(i / 16 * 4 + i % 8 / 2));
    return order;
}

constexpr Lookup<uint16_t> make_bf16_order() {
    Lookup<uint16_t> order = {};
    for (int i = 0; i < 32; ++i) order.values[i] = static_cast<uint16_t>((i % 2 == 0 ? 16 : 0) + pair_at(i / 2));
    return order;
}

// From which bit on of 8 bytes of codes to take the index of a word: the even quarters of vectors have the first 8 of
// 16 bytes, the odd ones the others. The low word of a pair is the odd column's, which is the high nibble.
constexpr Lookup<uint8_t> make_e2m1_shifts() {
    Lookup<uint8_t> shifts = {};
    for (int i = 0; i < 64; i += 2)
        shifts.values[i] = static_cast<uint8_t>(pair_at(i / 4) % 8 * 8 + (i % 4 == 0 ? 4 : 0));
    return shifts;
}

inline constexpr Lookup<uint8_t> kE4m3Order = make_e4m3_order();
inline constexpr Lookup<uint16_t> kBf16Order = make_bf16_order();
inline constexpr Lookup<uint8_t> kE2m1Shifts = make_e2m1_shifts();
inline constexpr E2m1Words kE2m1Words;
inline constexpr E4m3Bytes kE4m3Bytes;

// Asks for the codes or values of `count` outputs from `first` on, if they are few: long rows the processor foresees
// itself.
inline void fetch_outputs(const WeightMatrix& weight, int64_t first, int64_t count) {
    const int64_t size = count * weight.row_bytes();
    if (size > kMostFetched) return;
    const uint8_t* codes = static_cast<const uint8_t*>(weight.data) + first * weight.row_bytes();
    for (int64_t i = 0; i < size; i += 64) __builtin_prefetch(codes + i);
}

// Where the codes or values of the outputs from `first` on lie, kBits for each column.
template <int kBits>
class WeightRows {
  public:
    WeightRows(const WeightMatrix& weight, int64_t first)
        : data_(static_cast<const uint8_t*>(weight.data) + first * (weight.num_in * kBits / 8)),
          row_bytes_(weight.num_in * kBits / 8) {}

  protected:
    const uint8_t* at(int64_t i, int64_t column) const { return data_ + i * row_bytes_ + column * kBits / 8; }

  private:
    const uint8_t* data_;
    int64_t row_bytes_;
};

// Reads columns of the outputs from `first` on as pairs: read(i, k, a, b) gives columns k to k + 63 of output first +
// i, a those to k + 31; read_rest(i, k, n, a, b) gives n (1 to 63) columns and zeros. From kFirstRows rows on pairs are
// faster than float32; up to kDirectRows they are used straight from the registers.
template <WeightFormat kFormat>
class PairReader;

template <>
class PairReader<WeightFormat::kFp4Row32> : WeightRows<4> {
  public:
    static constexpr int64_t kFirstRows = 1, kDirectRows = 4;

    PairReader(const WeightMatrix& weight, int64_t first)
        : WeightRows(weight, first),
          scales_(weight.scales + first * weight.scales_per_row()),
          scales_per_row_(weight.scales_per_row()) {}

    static bool fits(const WeightMatrix& weight, Range outputs) {
        return scales_fit(weight.scales + outputs.begin * weight.scales_per_row(),
                          outputs.size() * weight.scales_per_row());
    }
    void read(int64_t i, int64_t k, __m512i& a, __m512i& b) const {
        const uint8_t* codes = at(i, k);
        const uint8_t* scales = scales_ + i * scales_per_row_ + k / 32;
        a = pairs(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)), scales[0]);
        b = pairs(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + 16)), scales[1]);
    }
    void read_rest(int64_t i, int64_t k, int64_t n, __m512i& a, __m512i& b) const {
        const uint8_t* codes = at(i, k);
        const uint8_t* scales = scales_ + i * scales_per_row_ + k / 32;
        const auto bytes = [&](int64_t from) {
            const int64_t left = (n - from) / 2;
            return _mm_maskz_loadu_epi8(static_cast<__mmask16>(left < 16 ? (1u << left) - 1 : 0xFFFFu),
                                        codes + from / 2);
        };
        a = pairs(bytes(0), scales[0]);
        b = n > 32 ? pairs(bytes(32), scales[1]) : _mm512_setzero_si512();
    }

  private:
    __m512i pairs(__m128i bytes, uint8_t scale) const {
        const __m512i indices = _mm512_multishift_epi64_epi8(shifts_, _mm512_broadcast_i32x4(bytes));
        return _mm512_permutexvar_epi16(indices, _mm512_load_si512(kE2m1Words.values[scale]));
    }

    const uint8_t* scales_;
    int64_t scales_per_row_;
    __m512i shifts_ = kE2m1Shifts.load();
};

// Without the scales.
template <>
class PairReader<WeightFormat::kFp8Block32> : WeightRows<8> {
  public:
    static constexpr int64_t kFirstRows = 1, kDirectRows = 7;

    using WeightRows::WeightRows;

    static bool fits(const WeightMatrix& weight, Range outputs) {
        const int64_t first = outputs.begin / 32, last = (outputs.end - 1) / 32;
        return scales_fit(weight.scales + first * weight.scales_per_row(),
                          (last - first + 1) * weight.scales_per_row());
    }
    void read(int64_t i, int64_t k, __m512i& a, __m512i& b) const { pairs(_mm512_loadu_si512(at(i, k)), a, b); }
    void read_rest(int64_t i, int64_t k, int64_t n, __m512i& a, __m512i& b) const {
        pairs(_mm512_maskz_loadu_epi8((__mmask64{1} << n) - 1, at(i, k)), a, b);
    }

  private:
    void pairs(__m512i codes, __m512i& a, __m512i& b) const {
        const __m512i bytes = _mm512_permutexvar_epi8(order_, codes);
        const __m512i low = _mm512_permutex2var_epi8(low_[0], bytes, low_[1]);
        const __m512i high = _mm512_permutex2var_epi8(high_[0], bytes, high_[1]);
        const __m512i signed_high = _mm512_ternarylogic_epi32(high, bytes, sign_, 0xF8);  // high | (bytes & sign)
        a = _mm512_unpacklo_epi8(low, signed_high);
        b = _mm512_unpackhi_epi8(low, signed_high);
    }

    __m512i order_ = kE4m3Order.load();
    __m512i low_[2] = {_mm512_load_si512(kE4m3Bytes.low), _mm512_load_si512(kE4m3Bytes.low + 64)};
    __m512i high_[2] = {_mm512_load_si512(kE4m3Bytes.high), _mm512_load_si512(kE4m3Bytes.high + 64)};
    __m512i sign_ = _mm512_set1_epi8(static_cast<char>(0x80));
};

template <>
class PairReader<WeightFormat::kBf16> : WeightRows<16> {
  public:
    static constexpr int64_t kFirstRows = 6, kDirectRows = 0;

    using WeightRows::WeightRows;

    static bool fits(const WeightMatrix&, Range) { return true; }  // each value is looked at
    void read(int64_t i, int64_t k, __m512i& a, __m512i& b) const {
        a = _mm512_permutexvar_epi16(order_, _mm512_loadu_si512(at(i, k)));
        b = _mm512_permutexvar_epi16(order_, _mm512_loadu_si512(at(i, k + 32)));
    }
    void read_rest(int64_t i, int64_t k, int64_t n, __m512i& a, __m512i& b) const {
        const auto lanes = [](int64_t left) { return left < 32 ? (__mmask32{1} << left) - 1 : ~__mmask32{0}; };
        a = _mm512_permutexvar_epi16(order_, _mm512_maskz_loadu_epi16(lanes(n), at(i, k)));
        b = _mm512_setzero_si512();
        if (n > 32) b = _mm512_permutexvar_epi16(order_, _mm512_maskz_loadu_epi16(lanes(n - 32), at(i, k + 32)));
    }

  private:
    __m512i order_ = kBf16Order.load();
};

// What a scale adds to the exponent of a bf16 word.
inline __m512i exponent_shift(uint8_t scale) {
    return _mm512_set1_epi16(static_cast<int16_t>((scale - 127) * 128));
}

// Words times that scale; zeros stay zeros.
inline __m512i shift_exponents(__m512i words, __m512i shift) {
    const __mmask32 nonzero = _mm512_test_epi16_mask(words, _mm512_set1_epi16(0x7FFF));
    return _mm512_mask_add_epi16(words, nonzero, words, shift);
}

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
