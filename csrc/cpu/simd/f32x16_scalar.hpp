// Sixteen float32 lanes as an array, for any CPU. Included through f32x16.hpp only, which says what each function
// means.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace deepinfer::cpu::scalar {

struct I32x16 {
    int32_t v[16];

    static I32x16 set(int32_t x) {
        return each([&](int) { return x; });
    }
    static I32x16 load(const int32_t* p) {
        return each([&](int i) { return p[i]; });
    }
    void store(int32_t* p) const { std::memcpy(p, v, sizeof v); }
    friend I32x16 operator+(I32x16 a, I32x16 b) {
        return each([&](int i) { return static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) + b.v[i]); });
    }
    friend I32x16 operator-(I32x16 a, I32x16 b) {
        return each([&](int i) { return static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) - b.v[i]); });
    }
    friend I32x16 operator&(I32x16 a, I32x16 b) {
        return each([&](int i) { return a.v[i] & b.v[i]; });
    }
    friend I32x16 operator|(I32x16 a, I32x16 b) {
        return each([&](int i) { return a.v[i] | b.v[i]; });
    }
    template <int N>
    I32x16 shift_left() const {
        return each([&](int i) { return static_cast<int32_t>(static_cast<uint32_t>(v[i]) << N); });
    }
    template <int N>
    I32x16 shift_right() const {
        return each([&](int i) { return v[i] >> N; });
    }

  private:
    template <typename F>
    static I32x16 each(F f) {
        I32x16 out;
        for (int i = 0; i < 16; ++i) out.v[i] = f(i);
        return out;
    }
};

struct Mask16 {
    uint32_t v;

    friend Mask16 operator&(Mask16 a, Mask16 b) { return {a.v & b.v}; }
    friend Mask16 operator|(Mask16 a, Mask16 b) { return {a.v | b.v}; }
    uint32_t bits() const { return v; }
};

struct Lanes;

struct F32x16 {
    float v[16];

    static F32x16 join(const Lanes (&lanes)[1]);

    static F32x16 zero() { return set(0.0f); }
    static F32x16 set(float x) {
        return each([&](int) { return x; });
    }
    static F32x16 load(const float* p) { return load(p, 16); }
    static F32x16 load(const float* p, int n) {
        return each([&](int i) { return i < n ? p[i] : 0.0f; });
    }
    static F32x16 load_bf16(const uint16_t* p) { return load_bf16(p, 16); }
    static F32x16 load_bf16(const uint16_t* p, int n) {
        return each([&](int i) { return from_word(i < n ? static_cast<uint32_t>(p[i]) << 16 : 0u); });
    }
    static F32x16 load_e4m3(const uint8_t* p) { return load_e4m3(p, 16); }
    static F32x16 load_e4m3(const uint8_t* p, int n) {
        return each([&](int i) { return i < n ? value_e4m3(p[i]) : 0.0f; });
    }
    static void load_e2m1(const uint8_t* p, F32x16& even, F32x16& odd) { load_e2m1(p, 16, even, odd); }
    static void load_e2m1(const uint8_t* p, int n, F32x16& even, F32x16& odd) {
        even = each([&](int i) { return i < n ? value_e2m1(p[i] & 15) : 0.0f; });
        odd = each([&](int i) { return i < n ? value_e2m1(p[i] >> 4) : 0.0f; });
    }
    static void load_e2m1(const uint8_t* p, const float* values, F32x16& even, F32x16& odd) {
        load_e2m1(p, 16, values, even, odd);
    }
    static void load_e2m1(const uint8_t* p, int n, const float* values, F32x16& even, F32x16& odd) {
        even = each([&](int i) { return values[i < n ? p[i] & 15 : 0]; });
        odd = each([&](int i) { return values[i < n ? p[i] >> 4 : 0]; });
    }
    static void split_pairs(F32x16 a, F32x16 b, F32x16& even, F32x16& odd) {
        even = each([&](int i) { return i < 8 ? a.v[2 * i] : b.v[2 * i - 16]; });
        odd = each([&](int i) { return i < 8 ? a.v[2 * i + 1] : b.v[2 * i - 15]; });
    }
    static void join_pairs(F32x16 even, F32x16 odd, F32x16& a, F32x16& b) {
        a = each([&](int i) { return i % 2 ? odd.v[i / 2] : even.v[i / 2]; });
        b = each([&](int i) { return i % 2 ? odd.v[8 + i / 2] : even.v[8 + i / 2]; });
    }
    static F32x16 from_int(I32x16 x) {
        return each([&](int i) { return static_cast<float>(x.v[i]); });
    }
    static F32x16 from_bits(I32x16 x) {
        return each([&](int i) { return from_word(static_cast<uint32_t>(x.v[i])); });
    }
    I32x16 bits() const {
        I32x16 out;
        std::memcpy(out.v, v, sizeof v);
        return out;
    }
    I32x16 to_int() const {
        I32x16 out;
        for (int i = 0; i < 16; ++i) {
            const bool fits = v[i] >= -2147483648.0f && v[i] < 2147483648.0f;
            out.v[i] = fits ? static_cast<int32_t>(std::nearbyint(v[i])) : INT32_MIN;
        }
        return out;
    }

    void store(float* p) const { std::memcpy(p, v, sizeof v); }
    void store(float* p, int n) const { std::memcpy(p, v, static_cast<size_t>(n) * sizeof(float)); }

    friend F32x16 operator+(F32x16 a, F32x16 b) {
        return each([&](int i) { return a.v[i] + b.v[i]; });
    }
    friend F32x16 operator-(F32x16 a, F32x16 b) {
        return each([&](int i) { return a.v[i] - b.v[i]; });
    }
    friend F32x16 operator*(F32x16 a, F32x16 b) {
        return each([&](int i) { return a.v[i] * b.v[i]; });
    }
    friend F32x16 operator/(F32x16 a, F32x16 b) {
        return each([&](int i) { return a.v[i] / b.v[i]; });
    }
    friend Mask16 operator<(F32x16 a, F32x16 b) {
        return test([&](int i) { return a.v[i] < b.v[i]; });
    }
    friend Mask16 operator<=(F32x16 a, F32x16 b) {
        return test([&](int i) { return a.v[i] <= b.v[i]; });
    }
    friend Mask16 operator==(F32x16 a, F32x16 b) {
        return test([&](int i) { return a.v[i] == b.v[i]; });
    }
    static F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
        return each([&](int i) { return std::fmaf(a.v[i], b.v[i], c.v[i]); });
    }
    static F32x16 max(F32x16 a, F32x16 b) {
        return each([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
    }
    static F32x16 min(F32x16 a, F32x16 b) {
        return each([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
    }
    static F32x16 select(Mask16 m, F32x16 yes, F32x16 no) {
        return each([&](int i) { return m.v >> i & 1u ? yes.v[i] : no.v[i]; });
    }
    F32x16 abs() const {
        return each([&](int i) { return std::fabs(v[i]); });
    }
    F32x16 sqrt() const {
        return each([&](int i) { return std::sqrt(v[i]); });
    }
    F32x16 round() const {
        return each([&](int i) { return std::nearbyint(v[i]); });
    }

    template <int N>
    F32x16 swap_lanes() const {
        return each([&](int i) { return v[i ^ N]; });
    }
    template <int N>
    static F32x16 pair_sums(F32x16 a, F32x16 b) {
        return each([&](int i) { return i & N ? b.v[i ^ N] + b.v[i] : a.v[i] + a.v[i ^ N]; });
    }

    float sum() const {
        F32x16 a = *this;
        for (int half = 8; half > 0; half /= 2)
            for (int i = 0; i < half; ++i) a.v[i] += a.v[i + half];
        return a.v[0];
    }
    static void sum4(F32x16 a, F32x16 b, F32x16 c, F32x16 d, float* out) {
        out[0] = a.sum();
        out[1] = b.sum();
        out[2] = c.sum();
        out[3] = d.sum();
    }
    float max_lane() const {
        F32x16 a = *this;
        for (int half = 8; half > 0; half /= 2)
            for (int i = 0; i < half; ++i) a.v[i] = a.v[i] > a.v[i + half] ? a.v[i] : a.v[i + half];
        return a.v[0];
    }

  private:
    template <typename F>
    static F32x16 each(F f) {
        F32x16 out;
        for (int i = 0; i < 16; ++i) out.v[i] = f(i);
        return out;
    }
    template <typename F>
    static Mask16 test(F f) {
        uint32_t bits = 0;
        for (int i = 0; i < 16; ++i) bits |= static_cast<uint32_t>(f(i)) << i;
        return {bits};
    }
    static float from_word(uint32_t word) {
        float value;
        std::memcpy(&value, &word, sizeof value);
        return value;
    }
    static float value_e4m3(uint8_t code) {
        const uint32_t exponent = code >> 3 & 15u, mantissa = code & 7u, sign = static_cast<uint32_t>(code >> 7) << 31;
        const float tiny = static_cast<float>(mantissa) * 0x1p-17f;  // 2^-9 a step, times 2^-8
        if (exponent == 0) return sign ? -tiny : tiny;
        return from_word(sign | (exponent - 7u + 127u - 8u) << 23 | mantissa << 20);
    }
    static float value_e2m1(int code) {
        constexpr float kMagnitudes[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
        return code & 8 ? -kMagnitudes[code & 7] : kMagnitudes[code & 7];
    }
};

struct Lanes {
    static constexpr int kSize = 16;
    F32x16 v;

    static Lanes zero() { return {F32x16::zero()}; }
    static Lanes load(const float* p) { return {F32x16::load(p)}; }
    static Lanes fma(Lanes a, Lanes b, Lanes c) { return {F32x16::fma(a.v, b.v, c.v)}; }
};

inline F32x16 F32x16::join(const Lanes (&lanes)[1]) {
    return lanes[0].v;
}

}  // namespace deepinfer::cpu::scalar
