// Kernels of ops/round_vectors.hpp, ops/encode_vectors.hpp and ops/decode_vectors.hpp.
#pragma once

#include "cpu/kernels/e8m0.hpp"
#include "cpu/kernels/lanes.hpp"
#include "cpu/kernels/quantize.hpp"
#include "cpu/ops/decode_vectors.hpp"
#include "cpu/ops/encode_vectors.hpp"
#include "cpu/ops/round_vectors.hpp"
#include "cpu/range.hpp"
#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

// 32 columns of a vector: two groups of 16 or one group of 32.
struct Columns {
    F32x16 a, b;      // columns 0 to 15, 16 to 31; as values and, once quantized, as code values
    float scales[2];  // of a and of b
    int low, high;    // how many of them exist

    Columns(const float* x, int64_t n)
        : low(n < 16 ? static_cast<int>(n) : 16), high(n < 32 ? static_cast<int>(n) - low : 16) {
        a = F32x16::load(x, low);
        b = F32x16::load(x + low, high);
    }
    void store(float* out) const {
        a.store(out, low);
        b.store(out + low, high);
    }
};

inline void quantize_columns(Columns& c, VectorRounding rounding) {
    if (rounding == VectorRounding::kFp4Group16) {
        c.scales[0] = e4m3_scale(largest_magnitude(c.a, F32x16::zero()));
        c.scales[1] = e4m3_scale(largest_magnitude(c.b, F32x16::zero()));
        c.a = round_e2m1(c.a / F32x16::set(c.scales[0]));
        c.b = round_e2m1(c.b / F32x16::set(c.scales[1]));
        return;
    }
    const bool is_fp8 = rounding == VectorRounding::kFp8Group32;
    const float floor = is_fp8 ? kFp8Floor : kFp4Floor, largest = is_fp8 ? kE4m3Max : kE2m1Max;
    c.scales[0] = c.scales[1] = power_of_two_scale(largest_magnitude(c.a, c.b), floor, largest);
    const F32x16 inverse = F32x16::set(1.0f / c.scales[0]);  // exact, so the product is the quotient
    c.a = is_fp8 ? round_e4m3(c.a * inverse) : round_e2m1(c.a * inverse);
    c.b = is_fp8 ? round_e4m3(c.b * inverse) : round_e2m1(c.b * inverse);
}

inline void round_vector(const float* x, float* out, int64_t dim, VectorRounding rounding) {
    for (int64_t i = 0; i < dim; i += 32) {
        Columns c(x + i, dim - i);
        if (rounding != VectorRounding::kNone) {
            quantize_columns(c, rounding);
            c.a = c.a * F32x16::set(c.scales[0]);
            c.b = c.b * F32x16::set(c.scales[1]);
        }
        c.store(out + i);
    }
}

inline void round_vectors(const RoundVectorsArgs& args, Range rows) {
    for (int64_t t = rows.begin; t < rows.end; ++t)
        round_vector(args.x + t * args.x_stride, args.out + t * args.out_stride, args.dim, args.rounding);
}

// Codes of 32 columns to out: bytes or, for e2m1, nibbles.
inline void store_codes(const Columns& c, bool is_fp8, uint8_t* out) {
    int32_t codes[32];
    (is_fp8 ? encode_e4m3(c.a) : encode_e2m1(c.a)).store(codes);
    (is_fp8 ? encode_e4m3(c.b) : encode_e2m1(c.b)).store(codes + 16);
    const int n = c.low + c.high;
    if (is_fp8) {
        for (int i = 0; i < n; ++i) out[i] = static_cast<uint8_t>(codes[i]);
    } else {
        for (int i = 0; i < n / 2; ++i) out[i] = static_cast<uint8_t>(codes[2 * i] | codes[2 * i + 1] << 4);
    }
}

inline void encode_vector(const float* x, uint8_t* out, int64_t dim, VectorRounding rounding) {
    const bool is_fp8 = rounding == VectorRounding::kFp8Group32;
    uint8_t* scales = out + (is_fp8 ? dim : dim / 2);
    for (int64_t i = 0; i < dim; i += 32) {
        Columns c(x + i, dim - i);
        quantize_columns(c, rounding);
        store_codes(c, is_fp8, out + (is_fp8 ? i : i / 2));
        if (rounding != VectorRounding::kFp4Group16) {
            *scales++ = static_cast<uint8_t>(float_bits(c.scales[0]) >> 23);
            continue;
        }
        int32_t codes[16];
        for (int half = 0; half < (c.high > 0 ? 2 : 1); ++half) {
            encode_e4m3(F32x16::set(c.scales[half])).store(codes);
            *scales++ = static_cast<uint8_t>(codes[0]);
        }
    }
}

inline void encode_vectors(const EncodeVectorsArgs& args, Range rows) {
    for (int64_t t = rows.begin; t < rows.end; ++t) {
        const float* x = args.x + t * args.x_stride;
        uint8_t* out = args.out + t * args.out_stride;
        if (args.rounding == VectorRounding::kNone)
            __builtin_memcpy(out, x, static_cast<size_t>(args.dim) * sizeof(float));
        else
            encode_vector(x, out, args.dim, args.rounding);
    }
}

// Values of e4m3 codes, the NaN codes included.
inline F32x16 decode_e4m3(const uint8_t* codes, int n) {
    const F32x16 value = F32x16::load_e4m3(codes, n);
    const F32x16 nan = F32x16::set(__builtin_nanf(""));
    return F32x16::select(value.abs() == F32x16::set(480.0f / 256.0f), nan, value * F32x16::set(256.0f));
}

inline void decode_fp8_vector(const uint8_t* codes, const uint8_t* scales, float* out, int64_t dim) {
    for (int64_t i = 0; i < dim; i += 16) {
        const int n = dim - i < 16 ? static_cast<int>(dim - i) : 16;
        (decode_e4m3(codes + i, n) * F32x16::set(kE8m0.values[scales[i / 32]])).store(out + i, n);
    }
}

// Value of every e4m3 code, the NaN codes included.
struct E4m3Table {
    float values[256];

    constexpr E4m3Table() : values() {
        for (int code = 0; code < 256; ++code) {
            const int exponent = code >> 3 & 15, mantissa = code & 7;
            float value = static_cast<float>(exponent == 0 ? mantissa : 8 + mantissa) * 0x1p-9f;
            for (int i = 1; i < exponent; ++i) value *= 2.0f;
            if ((code & 0x7F) == 0x7F) value = __builtin_nanf("");
            values[code] = code < 128 ? value : -value;
        }
    }
};

inline constexpr E4m3Table kE4m3;

// Scales of 32 columns whose pairs are in lanes: the first 8 lanes are the first group of 16.
inline F32x16 pair_scales(const uint8_t* scales, int num_pairs) {
    const F32x16 first = F32x16::set(kE4m3.values[scales[0]]);
    return num_pairs <= 8 ? first : F32x16::select(first_lanes(8), first, F32x16::set(kE4m3.values[scales[1]]));
}

inline void decode_fp4_vector(const uint8_t* data, float* out, int64_t dim, bool has_e4m3_scales) {
    const uint8_t* scales = data + dim / 2;
    for (int64_t i = 0; i < dim; i += 32) {
        const int num_pairs = lanes_left(dim / 2, i / 2);
        F32x16 even, odd, a, b;
        if (num_pairs == 16)
            F32x16::load_e2m1(data + i / 2, even, odd);
        else
            F32x16::load_e2m1(data + i / 2, num_pairs, even, odd);
        const F32x16 scale =
            has_e4m3_scales ? pair_scales(scales + i / 16, num_pairs) : F32x16::set(kE8m0.values[scales[i / 32]]);
        F32x16::join_pairs(even * scale, odd * scale, a, b);
        a.store(out + i, lanes_left(dim, i));
        if (num_pairs > 8) b.store(out + i + 16, 2 * num_pairs - 16);
    }
}

inline void decode_vector(const uint8_t* data, float* out, int64_t dim, VectorRounding rounding) {
    if (rounding == VectorRounding::kNone)
        __builtin_memcpy(out, data, static_cast<size_t>(dim) * sizeof(float));
    else if (rounding == VectorRounding::kFp8Group32)
        decode_fp8_vector(data, data + dim, out, dim);
    else
        decode_fp4_vector(data, out, dim, rounding == VectorRounding::kFp4Group16);
}

inline void decode_vectors(const DecodeVectorsArgs& args, Range rows) {
    for (int64_t t = rows.begin; t < rows.end; ++t)
        decode_vector(args.data + t * args.data_stride, args.out + t * args.out_stride, args.dim, args.rounding);
}

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
