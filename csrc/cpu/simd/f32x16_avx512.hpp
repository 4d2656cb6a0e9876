// Sixteen float32 lanes in one AVX-512 register. Included through f32x16.hpp only, which says what each function means.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

struct I32x16 {
    __m512i v;

    static I32x16 set(int32_t x) { return {_mm512_set1_epi32(x)}; }
    static I32x16 load(const int32_t* p) { return {_mm512_loadu_si512(p)}; }
    void store(int32_t* p) const { _mm512_storeu_si512(p, v); }
    friend I32x16 operator+(I32x16 a, I32x16 b) { return {_mm512_add_epi32(a.v, b.v)}; }
    friend I32x16 operator-(I32x16 a, I32x16 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
    friend I32x16 operator&(I32x16 a, I32x16 b) { return {_mm512_and_si512(a.v, b.v)}; }
    friend I32x16 operator|(I32x16 a, I32x16 b) { return {_mm512_or_si512(a.v, b.v)}; }
    template <int N>
    I32x16 shift_left() const {
        return {_mm512_slli_epi32(v, N)};
    }
    template <int N>
    I32x16 shift_right() const {  // keeps the sign
        return {_mm512_srai_epi32(v, N)};
    }
};

struct Mask16 {
    __mmask16 v;

    friend Mask16 operator&(Mask16 a, Mask16 b) { return {static_cast<__mmask16>(a.v & b.v)}; }
    friend Mask16 operator|(Mask16 a, Mask16 b) { return {static_cast<__mmask16>(a.v | b.v)}; }
    uint32_t bits() const { return v; }
};

struct Lanes {
    static constexpr int kSize = 16;
    __m512 v;

    static Lanes zero() { return {_mm512_setzero_ps()}; }
    static Lanes load(const float* p) { return {_mm512_loadu_ps(p)}; }
    static Lanes fma(Lanes a, Lanes b, Lanes c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
};

struct F32x16 {
    __m512 v;

    static F32x16 join(const Lanes (&lanes)[1]) { return {lanes[0].v}; }

    static F32x16 zero() { return {_mm512_setzero_ps()}; }
    static F32x16 set(float x) { return {_mm512_set1_ps(x)}; }
    static F32x16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
    static F32x16 load(const float* p, int n) { return {_mm512_maskz_loadu_ps(first(n), p)}; }
    static F32x16 load_bf16(const uint16_t* p) { return widen_bf16(_mm256_loadu_si256((const __m256i*)p)); }
    static F32x16 load_bf16(const uint16_t* p, int n) { return widen_bf16(_mm256_maskz_loadu_epi16(first(n), p)); }
    static F32x16 load_e4m3(const uint8_t* p) { return widen_e4m3(_mm_loadu_si128((const __m128i*)p)); }
    static F32x16 load_e4m3(const uint8_t* p, int n) { return widen_e4m3(_mm_maskz_loadu_epi8(first(n), p)); }
    static void load_e2m1(const uint8_t* p, F32x16& even, F32x16& odd) {
        split_e2m1(_mm_loadu_si128((const __m128i*)p), even, odd);
    }
    static void load_e2m1(const uint8_t* p, int n, F32x16& even, F32x16& odd) {
        split_e2m1(_mm_maskz_loadu_epi8(first(n), p), even, odd);
    }
    static void load_e2m1(const uint8_t* p, const float* values, F32x16& even, F32x16& odd) {
        split_e2m1(_mm_loadu_si128((const __m128i*)p), _mm512_load_ps(values), even, odd);
    }
    static void load_e2m1(const uint8_t* p, int n, const float* values, F32x16& even, F32x16& odd) {
        split_e2m1(_mm_maskz_loadu_epi8(first(n), p), _mm512_load_ps(values), even, odd);
    }
    static void split_pairs(F32x16 a, F32x16 b, F32x16& even, F32x16& odd) {
        const __m512i lanes = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        even.v = _mm512_permutex2var_ps(a.v, lanes, b.v);
        odd.v = _mm512_permutex2var_ps(a.v, _mm512_add_epi32(lanes, _mm512_set1_epi32(1)), b.v);
    }
    static void join_pairs(F32x16 even, F32x16 odd, F32x16& a, F32x16& b) {
        const __m512i lanes = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        a.v = _mm512_permutex2var_ps(even.v, lanes, odd.v);
        b.v = _mm512_permutex2var_ps(even.v, _mm512_add_epi32(lanes, _mm512_set1_epi32(8)), odd.v);
    }
    static F32x16 from_int(I32x16 x) { return {_mm512_cvtepi32_ps(x.v)}; }
    static F32x16 from_bits(I32x16 x) { return {_mm512_castsi512_ps(x.v)}; }
    I32x16 bits() const { return {_mm512_castps_si512(v)}; }
    I32x16 to_int() const { return {_mm512_cvtps_epi32(v)}; }

    void store(float* p) const { _mm512_storeu_ps(p, v); }
    void store(float* p, int n) const { _mm512_mask_storeu_ps(p, first(n), v); }

    friend F32x16 operator+(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
    friend F32x16 operator-(F32x16 a, F32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
    friend F32x16 operator*(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
    friend F32x16 operator/(F32x16 a, F32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
    friend Mask16 operator<(F32x16 a, F32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
    friend Mask16 operator<=(F32x16 a, F32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ)}; }
    friend Mask16 operator==(F32x16 a, F32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
    static F32x16 fma(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
    static F32x16 max(F32x16 a, F32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
    static F32x16 min(F32x16 a, F32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }
    static F32x16 select(Mask16 m, F32x16 yes, F32x16 no) { return {_mm512_mask_blend_ps(m.v, no.v, yes.v)}; }
    F32x16 abs() const { return {_mm512_abs_ps(v)}; }
    F32x16 sqrt() const { return {_mm512_sqrt_ps(v)}; }
    F32x16 round() const { return {_mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }

    template <int N>
    F32x16 swap_lanes() const {
        if constexpr (N == 8) return {_mm512_shuffle_f32x4(v, v, 0x4E)};
        if constexpr (N == 4) return {_mm512_shuffle_f32x4(v, v, 0xB1)};
        if constexpr (N == 2) return {_mm512_permute_ps(v, 0x4E)};
        return {_mm512_permute_ps(v, 0xB1)};
    }
    template <int N>
    static F32x16 pair_sums(F32x16 a, F32x16 b) {
        if constexpr (N == 8)
            return {_mm512_add_ps(_mm512_shuffle_f32x4(a.v, b.v, 0x44), _mm512_shuffle_f32x4(a.v, b.v, 0xEE))};
        if constexpr (N == 4)
            return {_mm512_add_ps(_mm512_mask_shuffle_f32x4(a.v, 0xF0F0, b.v, b.v, 0xA0),
                                  _mm512_mask_shuffle_f32x4(b.v, 0x0F0F, a.v, a.v, 0xF5))};
        if constexpr (N == 2)
            return {_mm512_add_ps(_mm512_shuffle_ps(a.v, b.v, 0x44), _mm512_shuffle_ps(a.v, b.v, 0xEE))};
        return {_mm512_add_ps(_mm512_mask_moveldup_ps(a.v, 0xAAAA, b.v), _mm512_mask_movehdup_ps(b.v, 0x5555, a.v))};
    }

    float sum() const { return sum8(_mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1))); }
    static void sum4(F32x16 a, F32x16 b, F32x16 c, F32x16 d, float* out) {
        const __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(a.v, b.v, 0x44), _mm512_shuffle_f32x4(a.v, b.v, 0xEE));
        const __m512 cd = _mm512_add_ps(_mm512_shuffle_f32x4(c.v, d.v, 0x44), _mm512_shuffle_f32x4(c.v, d.v, 0xEE));
        // Four lanes left of each, a to d in a quarter each.
        __m512 sum = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xDD));
        sum = _mm512_add_ps(sum, _mm512_permute_ps(sum, 0x4E));
        sum = _mm512_add_ps(sum, _mm512_movehdup_ps(sum));
        const __m512i firsts = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
        _mm_storeu_ps(out, _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, sum)));
    }
    float max_lane() const {
        __m256 a = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
        __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
        b = _mm_max_ps(b, _mm_movehl_ps(b, b));
        return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
    }

  private:
    static __mmask16 first(int n) { return static_cast<__mmask16>((1u << n) - 1u); }
    static float sum8(__m256 a) {
        __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
        b = _mm_add_ps(b, _mm_movehl_ps(b, b));
        return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
    }
    static F32x16 widen_bf16(__m256i x) {
        return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16))};
    }
    static F32x16 widen_e4m3(__m128i x) {
        __m256i half = _mm256_slli_epi16(_mm256_cvtepi8_epi16(x), 7);
        return {_mm512_cvtph_ps(_mm256_and_si256(half, _mm256_set1_epi16(static_cast<int16_t>(0xBFFF))))};
    }
    static __m512 e2m1_values() {
        return _mm512_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f,
                              -4.0f, -6.0f);
    }
    static void split_e2m1(__m128i x, F32x16& even, F32x16& odd) { split_e2m1(x, e2m1_values(), even, odd); }
    static void split_e2m1(__m128i x, __m512 table, F32x16& even, F32x16& odd) {
        __m512i codes = _mm512_cvtepu8_epi32(x);
        even.v = _mm512_permutexvar_ps(codes, table);  // uses the low four bits of each lane
        odd.v = _mm512_permutexvar_ps(_mm512_srli_epi32(codes, 4), table);
    }
};

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
