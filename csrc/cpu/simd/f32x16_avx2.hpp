// Sixteen float32 lanes in two AVX2 registers. Included through f32x16.hpp only, which says what each function means.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace deepinfer::cpu::avx2 {

struct I32x16 {
    __m256i lo, hi;

    static I32x16 set(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
    static I32x16 load(const int32_t* p) {
        return {_mm256_loadu_si256((const __m256i*)p), _mm256_loadu_si256((const __m256i*)(p + 8))};
    }
    void store(int32_t* p) const {
        _mm256_storeu_si256((__m256i*)p, lo);
        _mm256_storeu_si256((__m256i*)(p + 8), hi);
    }
    friend I32x16 operator+(I32x16 a, I32x16 b) { return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)}; }
    friend I32x16 operator-(I32x16 a, I32x16 b) { return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)}; }
    friend I32x16 operator&(I32x16 a, I32x16 b) { return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)}; }
    friend I32x16 operator|(I32x16 a, I32x16 b) { return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)}; }
    template <int N>
    I32x16 shift_left() const {
        return {_mm256_slli_epi32(lo, N), _mm256_slli_epi32(hi, N)};
    }
    template <int N>
    I32x16 shift_right() const {
        return {_mm256_srai_epi32(lo, N), _mm256_srai_epi32(hi, N)};
    }
};

struct Mask16 {
    __m256 lo, hi;

    friend Mask16 operator&(Mask16 a, Mask16 b) { return {_mm256_and_ps(a.lo, b.lo), _mm256_and_ps(a.hi, b.hi)}; }
    friend Mask16 operator|(Mask16 a, Mask16 b) { return {_mm256_or_ps(a.lo, b.lo), _mm256_or_ps(a.hi, b.hi)}; }
    uint32_t bits() const {
        return static_cast<uint32_t>(_mm256_movemask_ps(lo)) | static_cast<uint32_t>(_mm256_movemask_ps(hi)) << 8;
    }
};

struct Lanes {
    static constexpr int kSize = 8;
    __m256 v;

    static Lanes zero() { return {_mm256_setzero_ps()}; }
    static Lanes load(const float* p) { return {_mm256_loadu_ps(p)}; }
    static Lanes fma(Lanes a, Lanes b, Lanes c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
};

struct F32x16 {
    __m256 lo, hi;

    static F32x16 join(const Lanes (&lanes)[2]) { return {lanes[0].v, lanes[1].v}; }

    static F32x16 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
    static F32x16 set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
    static F32x16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
    static F32x16 load(const float* p, int n) {
        return {_mm256_maskload_ps(p, first(n)), n > 8 ? _mm256_maskload_ps(p + 8, first(n - 8)) : _mm256_setzero_ps()};
    }
    static F32x16 load_bf16(const uint16_t* p) { return widen_bf16(_mm256_loadu_si256((const __m256i*)p)); }
    static F32x16 load_bf16(const uint16_t* p, int n) {
        alignas(32) uint16_t padded[16] = {};
        for (int i = 0; i < n; ++i) padded[i] = p[i];
        return load_bf16(padded);
    }
    static F32x16 load_e4m3(const uint8_t* p) {
        __m256i half = _mm256_slli_epi16(_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)p)), 7);
        half = _mm256_and_si256(half, _mm256_set1_epi16(static_cast<int16_t>(0xBFFF)));
        return {_mm256_cvtph_ps(_mm256_castsi256_si128(half)), _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1))};
    }
    static F32x16 load_e4m3(const uint8_t* p, int n) {
        uint8_t padded[16];
        pad(p, n, padded);
        return load_e4m3(padded);
    }
    static void load_e2m1(const uint8_t* p, F32x16& even, F32x16& odd) {
        __m128i x = _mm_loadu_si128((const __m128i*)p);
        __m256i a = _mm256_cvtepu8_epi32(x), b = _mm256_cvtepu8_epi32(_mm_srli_si128(x, 8));
        even = {value_e2m1(a), value_e2m1(b)};
        odd = {value_e2m1(_mm256_srli_epi32(a, 4)), value_e2m1(_mm256_srli_epi32(b, 4))};
    }
    static void load_e2m1(const uint8_t* p, int n, F32x16& even, F32x16& odd) {
        uint8_t padded[16];
        pad(p, n, padded);
        load_e2m1(padded, even, odd);
    }
    static void load_e2m1(const uint8_t* p, const float* values, F32x16& even, F32x16& odd) {
        __m128i x = _mm_loadu_si128((const __m128i*)p);
        __m256i a = _mm256_cvtepu8_epi32(x), b = _mm256_cvtepu8_epi32(_mm_srli_si128(x, 8));
        even = {look_up(values, a), look_up(values, b)};
        odd = {look_up(values, _mm256_srli_epi32(a, 4)), look_up(values, _mm256_srli_epi32(b, 4))};
    }
    static void load_e2m1(const uint8_t* p, int n, const float* values, F32x16& even, F32x16& odd) {
        uint8_t padded[16];
        pad(p, n, padded);
        load_e2m1(padded, values, even, odd);
    }
    static void split_pairs(F32x16 a, F32x16 b, F32x16& even, F32x16& odd) {
        even = {pick<0x88>(a), pick<0x88>(b)};
        odd = {pick<0xDD>(a), pick<0xDD>(b)};
    }
    static void join_pairs(F32x16 even, F32x16 odd, F32x16& a, F32x16& b) {
        a = interleave(even.lo, odd.lo);
        b = interleave(even.hi, odd.hi);
    }
    static F32x16 from_int(I32x16 x) { return {_mm256_cvtepi32_ps(x.lo), _mm256_cvtepi32_ps(x.hi)}; }
    static F32x16 from_bits(I32x16 x) { return {_mm256_castsi256_ps(x.lo), _mm256_castsi256_ps(x.hi)}; }
    I32x16 bits() const { return {_mm256_castps_si256(lo), _mm256_castps_si256(hi)}; }
    I32x16 to_int() const { return {_mm256_cvtps_epi32(lo), _mm256_cvtps_epi32(hi)}; }

    void store(float* p) const {
        _mm256_storeu_ps(p, lo);
        _mm256_storeu_ps(p + 8, hi);
    }
    void store(float* p, int n) const {
        _mm256_maskstore_ps(p, first(n), lo);
        if (n > 8) _mm256_maskstore_ps(p + 8, first(n - 8), hi);
    }

    friend F32x16 operator+(F32x16 a, F32x16 b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
    friend F32x16 operator-(F32x16 a, F32x16 b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
    friend F32x16 operator*(F32x16 a, F32x16 b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
    friend F32x16 operator/(F32x16 a, F32x16 b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
    friend Mask16 operator<(F32x16 a, F32x16 b) {
        return {_mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ)};
    }
    friend Mask16 operator<=(F32x16 a, F32x16 b) {
        return {_mm256_cmp_ps(a.lo, b.lo, _CMP_LE_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LE_OQ)};
    }
    friend Mask16 operator==(F32x16 a, F32x16 b) {
        return {_mm256_cmp_ps(a.lo, b.lo, _CMP_EQ_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_EQ_OQ)};
    }
    static F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
        return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
    }
    static F32x16 max(F32x16 a, F32x16 b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
    static F32x16 min(F32x16 a, F32x16 b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
    static F32x16 select(Mask16 m, F32x16 yes, F32x16 no) {
        return {_mm256_blendv_ps(no.lo, yes.lo, m.lo), _mm256_blendv_ps(no.hi, yes.hi, m.hi)};
    }
    F32x16 abs() const {
        const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF));
        return {_mm256_and_ps(lo, magnitude), _mm256_and_ps(hi, magnitude)};
    }
    F32x16 sqrt() const { return {_mm256_sqrt_ps(lo), _mm256_sqrt_ps(hi)}; }
    F32x16 round() const {
        return {_mm256_round_ps(lo, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
                _mm256_round_ps(hi, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
    }

    template <int N>
    F32x16 swap_lanes() const {
        if constexpr (N == 8) return {hi, lo};
        if constexpr (N == 4) return {_mm256_permute2f128_ps(lo, lo, 1), _mm256_permute2f128_ps(hi, hi, 1)};
        if constexpr (N == 2) return {_mm256_permute_ps(lo, 0x4E), _mm256_permute_ps(hi, 0x4E)};
        return {_mm256_permute_ps(lo, 0xB1), _mm256_permute_ps(hi, 0xB1)};
    }
    template <int N>
    static F32x16 pair_sums(F32x16 a, F32x16 b) {
        if constexpr (N == 8) return {_mm256_add_ps(a.lo, a.hi), _mm256_add_ps(b.lo, b.hi)};
        return {pair_sums8<N>(a.lo, b.lo), pair_sums8<N>(a.hi, b.hi)};
    }

    float sum() const {
        __m256 a = _mm256_add_ps(lo, hi);
        __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
        b = _mm_add_ps(b, _mm_movehl_ps(b, b));
        return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
    }
    static void sum4(F32x16 a, F32x16 b, F32x16 c, F32x16 d, float* out) {
        const __m256 ab = add_halves(_mm256_add_ps(a.lo, a.hi), _mm256_add_ps(b.lo, b.hi));
        const __m256 cd = add_halves(_mm256_add_ps(c.lo, c.hi), _mm256_add_ps(d.lo, d.hi));
        // Four lanes left of each: a and c in the lower half, b and d in the upper one.
        const __m256d x = _mm256_castps_pd(ab), y = _mm256_castps_pd(cd);
        __m256 sum =
            _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(x, y)), _mm256_castpd_ps(_mm256_unpackhi_pd(x, y)));
        sum = _mm256_add_ps(sum, _mm256_movehdup_ps(sum));
        sum = _mm256_permute_ps(sum, 0x08);
        _mm_storeu_ps(out, _mm_unpacklo_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps(sum, 1)));
    }
    float max_lane() const {
        __m256 a = _mm256_max_ps(lo, hi);
        __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
        b = _mm_max_ps(b, _mm_movehl_ps(b, b));
        return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
    }

  private:
    static F32x16 interleave(__m256 even, __m256 odd) {
        const __m256 first = _mm256_unpacklo_ps(even, odd), second = _mm256_unpackhi_ps(even, odd);
        return {_mm256_permute2f128_ps(first, second, 0x20), _mm256_permute2f128_ps(first, second, 0x31)};
    }
    template <int N>
    static __m256 pair_sums8(__m256 a, __m256 b) {
        if constexpr (N == 4)
            return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
        if constexpr (N == 2) return _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xEE));
        return _mm256_add_ps(_mm256_blend_ps(a, _mm256_moveldup_ps(b), 0xAA),
                             _mm256_blend_ps(_mm256_movehdup_ps(a), b, 0xAA));
    }
    static __m256i first(int n) {
        return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    }
    // [a's lower half + a's upper half, the same of b].
    static __m256 add_halves(__m256 a, __m256 b) {
        return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
    }
    // Two lanes of each quarter of x, chosen by kPick, in order.
    template <int kPick>
    static __m256 pick(F32x16 x) {
        const __m256 mixed = _mm256_shuffle_ps(x.lo, x.hi, kPick);
        return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(mixed), 0xD8));
    }
    static void pad(const uint8_t* p, int n, uint8_t (&padded)[16]) {
        for (int i = 0; i < 16; ++i) padded[i] = i < n ? p[i] : 0;
    }
    static F32x16 widen_bf16(__m256i x) {
        __m256i lo = _mm256_cvtepu16_epi32(_mm256_castsi256_si128(x));
        __m256i hi = _mm256_cvtepu16_epi32(_mm256_extracti128_si256(x, 1));
        return {_mm256_castsi256_ps(_mm256_slli_epi32(lo, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(hi, 16))};
    }
    static __m256 value_e2m1(__m256i codes) {
        const __m256 magnitudes = _mm256_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f);
        __m256 value = _mm256_permutevar8x32_ps(magnitudes, codes);  // uses the low three bits of each lane
        __m256i sign = _mm256_slli_epi32(_mm256_and_si256(codes, _mm256_set1_epi32(8)), 28);
        return _mm256_or_ps(value, _mm256_castsi256_ps(sign));
    }
    static __m256 look_up(const float* values, __m256i codes) {
        const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(values), codes);
        const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(values + 8), codes);
        return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(codes, 28)));
    }
};

}  // namespace deepinfer::cpu::avx2
