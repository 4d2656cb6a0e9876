// Kernel of ops/row_product.hpp with bf16 dot products, for rows that are bf16 values: half the multiplications of
// kernels/multiply_rows.hpp and the same bits. A dot product of pairs is two fused multiply-adds one after the other,
// which flush subnormals; operands are such that there are none (kernels/pack_rows.hpp).
#pragma once

#include <immintrin.h>

#include "cpu/kernels/round.hpp"
#include "cpu/kernels/weight_pairs.hpp"
#include "cpu/ops/row_product.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

inline constexpr int kSums = 16;     // accumulators of a block
inline constexpr int kMostRows = 7;  // of a block straight from the codes
inline constexpr int kTileRows = 4, kTileColumns = 4;

inline int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// The first output behind the FP8 tile that has output o.
inline int64_t end_of_tile(int64_t o) {
    return (o / 32 + 1) * 32;
}

// Where a block of rows begins, for reading and for writing.
template <int kRows>
struct PairBlock {
    const uint16_t* x[kRows];
    float* out[kRows];

    PairBlock(const RowProduct& product, int64_t first) {
        for (int r = 0; r < kRows; ++r) {
            x[r] = product.pair_row(first + r);
            out[r] = product.out + (first + r) * product.out_stride;
        }
    }
};

inline __m512i load_words(const uint16_t* p) {
    return _mm512_loadu_si512(p);
}

inline void add_dots(F32x16& sum, __m512i weights, __m512i x) {
    sum.v = _mm512_dpbf16_ps(sum.v, reinterpret_cast<__m512bh>(weights), reinterpret_cast<__m512bh>(x));
}

// Lane i is the sum of sums[i], pairs i and i + 8 first, then i + 4, + 2, + 1, as F32x16::sum adds lanes: those of a
// quarter of the vectors come first (ops/pack_rows.hpp).
inline F32x16 pair_sums(const F32x16 (&sums)[kSums]) {
    __m512 quarters[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        const __m512 a = sums[4 * i].v, b = sums[4 * i + 1].v, c = sums[4 * i + 2].v, d = sums[4 * i + 3].v;
        const __m512 ab = _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xEE));
        const __m512 cd = _mm512_add_ps(_mm512_shuffle_ps(c, d, 0x44), _mm512_shuffle_ps(c, d, 0xEE));
        quarters[i] = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x88), _mm512_shuffle_ps(ab, cd, 0xDD));
    }
    const auto halves = [](__m512 a, __m512 b) {
        return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
    };
    const __m512 a = halves(quarters[0], quarters[1]), b = halves(quarters[2], quarters[3]);
    return {_mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xDD))};
}

// Accumulator r * kNum + i goes to row r, column `column` + i, for the first n columns.
template <int kRows, int kNum>
inline void store_block(const F32x16 (&acc)[kSums], bool rounds, const PairBlock<kRows>& block, int64_t column, int n) {
    alignas(64) float sums[kSums];
    round_if(rounds, pair_sums(acc)).store(sums);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
        float* out = block.out[r] + column;
        if (n == kNum)
            __builtin_memcpy(out, sums + r * kNum, kNum * sizeof(float));
        else
            for (int i = 0; i < n; ++i) out[i] = sums[r * kNum + i];
    }
}

// Outputs o to o + kNum - 1 of kRows rows, straight from the codes. Within a larger function the accumulators would not
// stay registers.
template <WeightFormat kFormat, int kRows, int kNum>
__attribute__((noinline)) void multiply_codes(const RowProduct& product, int64_t o, const PairBlock<kRows>& block) {
    const int64_t num_in = product.weight.num_in;
    const PairReader<kFormat> reader(product.weight, o);
    fetch_outputs(product.weight, o + (kRows == 1 ? kNum : kTileOutputs), kNum);
    F32x16 acc[kSums];
#pragma GCC unroll 16
    for (F32x16& sum : acc) sum = F32x16::zero();
    int64_t k = 0;
    for (; k + 64 <= num_in; k += 64) {
#pragma GCC unroll 16
        for (int i = 0; i < kNum; ++i) {
            __m512i a, b;
            reader.read(i, k, a, b);
#pragma GCC unroll 8
            for (int r = 0; r < kRows; ++r) {
                add_dots(acc[r * kNum + i], a, load_words(block.x[r] + k));
                add_dots(acc[r * kNum + i], b, load_words(block.x[r] + k + 32));
            }
        }
    }
    if (k < num_in) {
#pragma GCC unroll 16
        for (int i = 0; i < kNum; ++i) {
            __m512i a, b;
            reader.read_rest(i, k, num_in - k, a, b);
#pragma GCC unroll 8
            for (int r = 0; r < kRows; ++r) {
                add_dots(acc[r * kNum + i], a, load_words(block.x[r] + k));
                if (num_in - k > 32) add_dots(acc[r * kNum + i], b, load_words(block.x[r] + k + 32));
            }
        }
    }
    store_block<kRows, kNum>(acc, product.rounds_bf16, block, o - product.outputs.begin, kNum);
}

template <WeightFormat kFormat, int kRows>
inline void multiply_codes_rows(const RowProduct& product, Range outputs, PairBlock<kRows> block) {
    constexpr int kNum = kRows == 1 ? 16 : kRows == 2 ? 8 : kRows <= 4 ? 4 : 2;
    int64_t o = outputs.begin;
    for (; o + kNum <= outputs.end; o += kNum) multiply_codes<kFormat, kRows, kNum>(product, o, block);
    for (; o < outputs.end; ++o) multiply_codes<kFormat, kRows, 1>(product, o, block);
}

// x times the scales of one tile, to the scratch.
template <int kRows>
inline void scale_block(const RowProduct& product, int64_t o, PairBlock<kRows>& block) {
    const WeightMatrix& weight = product.weight;
    const uint8_t* scales = weight.scales + o / 32 * weight.scales_per_row();
    const int64_t stride = padded_columns(weight.num_in);
    auto* out = reinterpret_cast<uint16_t*>(product.scratch);
    for (int r = 0; r < kRows; ++r, out += stride) {
        const uint16_t* x = product.pair_row(r);
        for (int64_t k = 0; k < stride; k += 32)
            _mm512_storeu_si512(out + k, shift_exponents(load_words(x + k), exponent_shift(scales[k / 32])));
        block.x[r] = out;
    }
}

template <WeightFormat kFormat, int kRows>
inline void multiply_few(const RowProduct& product) {
    if (product.num_rows < kRows) {
        if constexpr (kRows > 1) multiply_few<kFormat, kRows - 1>(product);
        return;
    }
    PairBlock<kRows> block(product, 0);
    const Range outputs = product.outputs;
    if constexpr (kFormat != WeightFormat::kFp8Block32) return multiply_codes_rows<kFormat>(product, outputs, block);
    for (int64_t o = outputs.begin, end; o < outputs.end; o = end) {
        end = least(outputs.end, end_of_tile(o));
        scale_block(product, o, block);
        multiply_codes_rows<kFormat>(product, {o, end}, block);
    }
}

// What the scales of the FP8 tile of output o add to the exponents of words, for every word of a row.
inline void lay_out_shifts(const WeightMatrix& weight, int64_t o, uint16_t* out) {
    const uint8_t* scales = weight.scales + o / 32 * weight.scales_per_row();
    for (int64_t k = 0; k < weight.num_in; k += 32) _mm512_storeu_si512(out + k, exponent_shift(scales[k / 32]));
}

// Pairs of `count` outputs from `first` on (for FP8 of one tile), padded to whole groups of columns and to a multiple
// of four outputs; `shifts` has room for one row. Returns whether they may be used.
template <WeightFormat kFormat>
__attribute__((noinline)) bool decode_pairs(const WeightMatrix& weight, int64_t first, int64_t count, uint16_t* out,
                                            uint16_t* shifts) {
    const int64_t stride = padded_columns(weight.num_in), num_in = weight.num_in;
    if constexpr (kFormat == WeightFormat::kFp8Block32) lay_out_shifts(weight, first, shifts);
    const PairReader<kFormat> reader(weight, first);
    bool fit = true;
    const auto put = [&](__m512i words, int64_t k) {
        if constexpr (kFormat == WeightFormat::kFp8Block32) words = shift_exponents(words, load_words(shifts + k));
        if constexpr (kFormat == WeightFormat::kBf16) fit &= are_in_range(words);
        _mm512_storeu_si512(out + k, words);
    };
    for (int64_t n = 0; n < (count + kTileColumns - 1) / kTileColumns * kTileColumns; ++n, out += stride) {
        const int64_t i = n < count ? n : 0;
        __m512i a, b;
        int64_t k = 0;
        for (; k + 64 <= num_in; k += 64) {
            reader.read(i, k, a, b);
            put(a, k);
            put(b, k + 32);
        }
        if (k == num_in) continue;
        reader.read_rest(i, k, num_in - k, a, b);
        put(a, k);
        if (k + 32 < stride) put(b, k + 32);
    }
    return fit;
}

// The first n (1 to 4) outputs of decoded weights [4, stride] times kRows rows.
template <int kRows>
inline void multiply_tile(const uint16_t* w, int64_t stride, bool rounds, const PairBlock<kRows>& block, int64_t column,
                          int n) {
    F32x16 acc[kSums];
#pragma GCC unroll 16
    for (F32x16& sum : acc) sum = F32x16::zero();
    for (int64_t k = 0; k < stride; k += 32) {
        __m512i x[kRows];
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) x[r] = load_words(block.x[r] + k);
#pragma GCC unroll 4
        for (int i = 0; i < kTileColumns; ++i) {
            const __m512i weights = load_words(w + i * stride + k);
#pragma GCC unroll 4
            for (int r = 0; r < kRows; ++r) add_dots(acc[r * kTileColumns + i], weights, x[r]);
        }
    }
    store_block<kRows, kTileColumns>(acc, rounds, block, column, n);
}

// Decoded weights times kRows rows or, of a last block, as many as are left.
template <int kRows>
inline void multiply_tiles(const RowProduct& product, int64_t first, int64_t column, int64_t count) {
    if (product.num_rows - first < kRows) {
        if constexpr (kRows > 1) multiply_tiles<kRows - 1>(product, first, column, count);
        return;
    }
    const auto* w = reinterpret_cast<const uint16_t*>(product.scratch);
    const int64_t stride = padded_columns(product.weight.num_in);
    const PairBlock<kRows> block(product, first);
    for (int64_t i = 0; i < count; i += kTileColumns) {
        const int n = count - i < kTileColumns ? static_cast<int>(count - i) : kTileColumns;
        multiply_tile<kRows>(w + i * stride, stride, product.rounds_bf16, block, column + i, n);
    }
}

template <WeightFormat kFormat>
inline bool multiply_pairs_format(const RowProduct& product) {
    using Reader = PairReader<kFormat>;
    if (product.num_rows < Reader::kFirstRows || !Reader::fits(product.weight, product.outputs)) return false;
    if (product.num_rows <= Reader::kDirectRows) {
        multiply_few<kFormat, kMostRows>(product);
        return true;
    }
    const int64_t step = decoded_outputs(product.weight.num_in);
    auto* decoded = reinterpret_cast<uint16_t*>(product.scratch);
    uint16_t* shifts = decoded + step * padded_columns(product.weight.num_in);  // the scratch has room for floats
    for (int64_t o = product.outputs.begin, end; o < product.outputs.end; o = end) {
        end = least(product.outputs.end, o + step);
        if (kFormat == WeightFormat::kFp8Block32) end = least(end, end_of_tile(o));
        const int64_t count = end - o;
        if (!decode_pairs<kFormat>(product.weight, o, count, decoded, shifts)) return false;
        fetch_outputs(product.weight, end, count);
        for (int64_t t = 0; t < product.num_rows; t += kTileRows)
            multiply_tiles<kTileRows>(product, t, o - product.outputs.begin, count);
    }
    return true;
}

// Returns whether the product could be computed so; if not, what was written is of no use.
inline bool multiply_pairs(const RowProduct& product) {
    switch (product.weight.format) {
        case WeightFormat::kBf16:
            return multiply_pairs_format<WeightFormat::kBf16>(product);
        case WeightFormat::kFp8Block32:
            return multiply_pairs_format<WeightFormat::kFp8Block32>(product);
        case WeightFormat::kFp4Row32:
            return multiply_pairs_format<WeightFormat::kFp4Row32>(product);
        default:
            return false;
    }
}

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
