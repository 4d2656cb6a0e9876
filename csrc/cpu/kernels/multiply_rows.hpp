// Kernel of ops/row_product.hpp, in two forms that make the same additions in the same order.
//
// A few rows: every weight is decoded in registers and used for each row at once. More rows: the weights of some
// outputs are decoded into the scratch, then blocks of rows and four outputs are multiplied from there.
#pragma once

#include "cpu/kernels/dots.hpp"
#include "cpu/kernels/round.hpp"
#include "cpu/kernels/scaled_rows.hpp"
#include "cpu/kernels/weight_row.hpp"
#include "cpu/ops/row_product.hpp"
#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

inline constexpr int kOutputs = 4;  // of a block
// As many accumulators as there are registers for.
inline constexpr int kDirectRows = Lanes::kSize == 16 ? 5 : 1;
inline constexpr int kBlockRows = Lanes::kSize == 16 ? 6 : 3;

// Where a block of rows begins, for reading and for writing.
struct RowBlock {
    const float* x[kBlockRows];
    float* out[kBlockRows];
};

inline RowBlock row_block(const RowProduct& product, int64_t first, int num_rows) {
    RowBlock block = {};
    for (int r = 0; r < num_rows; ++r) {
        block.x[r] = product.row(first + r);
        block.out[r] = product.out + (first + r) * product.out_stride;
    }
    return block;
}

// The sums of kRows x 4 accumulators to the first n (1 to 4) columns from `column` on. Unrolled, so that the
// accumulators stay registers.
template <int kRows>
inline void store_sums(const F32x16 (&acc)[kRows][kOutputs], int n, const RowBlock& block, int64_t column) {
    constexpr int kTogether = kRows >= 4 && Lanes::kSize == 16 ? 4 : 0;  // rows whose sums make one vector
    alignas(64) float sums[kRows][kOutputs];
    if constexpr (kTogether > 0) {
        F32x16 lanes[16];
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) lanes[i] = acc[i / kOutputs][i % kOutputs];
        sums_of_16(lanes).store(sums[0]);
    }
#pragma GCC unroll 6
    for (int r = kTogether; r < kRows; ++r) F32x16::sum4(acc[r][0], acc[r][1], acc[r][2], acc[r][3], sums[r]);
    for (int r = 0; r < kRows; ++r) {
        float* out = block.out[r] + column;
        if (n == kOutputs)
            __builtin_memcpy(out, sums[r], sizeof(sums[r]));
        else
            for (int i = 0; i < n; ++i) out[i] = sums[r][i];
    }
}

// Outputs o to o + kNum - 1 of kRows rows, straight from the codes; results go to column `column` of the block.
template <WeightFormat kFormat, int kRows, int kNum, bool kHasScaledRows>
inline void multiply_direct(const WeightMatrix& weight, int64_t o, const RowBlock& block, int64_t column) {
    const WeightBlock<kFormat, kNum, kHasScaledRows> weights(weight, o);
    weights.fetch_next(weight);
    F32x16 acc[kRows][kNum];
    for (auto& row : acc)
        for (F32x16& lanes : row) lanes = F32x16::zero();
    int64_t k = 0;
    const auto add = [&](int i, F32x16 a, F32x16 b) {
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
            acc[r][i] = F32x16::fma(a, F32x16::load(block.x[r] + k), acc[r][i]);
            acc[r][i] = F32x16::fma(b, F32x16::load(block.x[r] + k + 16), acc[r][i]);
        }
    };
    for (; k + 32 <= weight.num_in; k += 32) weights.read(k, add);
    if (k < weight.num_in) weights.read(k, static_cast<int>(weight.num_in - k), add);
    if constexpr (kNum == kOutputs) {
        store_sums<kRows>(acc, kOutputs, block, column);
    } else if constexpr (kNum == 1) {
        for (int r = 0; r < kRows; ++r) block.out[r][column] = acc[r][0].sum();
    } else {
        for (int r = 0; r < kRows; ++r)
            for (int i = 0; i < kNum; i += kOutputs)
                F32x16::sum4(acc[r][i], acc[r][i + 1], acc[r][i + 2], acc[r][i + 3], block.out[r] + column + i);
    }
}

// The same from decoded weights [4, stride].
template <int kRows>
inline void multiply_decoded(const float* w, int64_t stride, int n, const RowBlock& block, int64_t column) {
    constexpr int kParts = 16 / Lanes::kSize;
    Lanes sums[kRows][kOutputs][kParts];
    for (int part = 0; part < kParts; ++part) {
        Lanes acc[kRows][kOutputs];
#pragma GCC unroll 6
        for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
            for (int i = 0; i < kOutputs; ++i) acc[r][i] = Lanes::zero();
        for (int64_t k = part * Lanes::kSize; k < stride; k += 16) {
            Lanes x[kRows];
#pragma GCC unroll 6
            for (int r = 0; r < kRows; ++r) x[r] = Lanes::load(block.x[r] + k);
#pragma GCC unroll 4
            for (int i = 0; i < kOutputs; ++i) {
                const Lanes weights = Lanes::load(w + i * stride + k);
#pragma GCC unroll 6
                for (int r = 0; r < kRows; ++r) acc[r][i] = Lanes::fma(weights, x[r], acc[r][i]);
            }
        }
#pragma GCC unroll 6
        for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
            for (int i = 0; i < kOutputs; ++i) sums[r][i][part] = acc[r][i];
    }
    F32x16 acc[kRows][kOutputs];
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
        for (int i = 0; i < kOutputs; ++i) acc[r][i] = F32x16::join(sums[r][i]);
    store_sums<kRows>(acc, n, block, column);
}

template <int kRows>
inline void multiply_decoded_rows(int num_rows, const float* w, int64_t stride, int n, const RowBlock& block,
                                  int64_t column) {
    if (num_rows == kRows) return multiply_decoded<kRows>(w, stride, n, block, column);
    if constexpr (kRows > 1) multiply_decoded_rows<kRows - 1>(num_rows, w, stride, n, block, column);
}

template <WeightFormat kFormat, int kRows, bool kHasScaledRows>
inline void multiply_direct_block(const RowProduct& product, const RowBlock& block) {
    constexpr int kNum = kRows <= 2 && Lanes::kSize == 16 ? 8 : kOutputs;
    const Range outputs = product.outputs;
    for (int64_t o = outputs.begin; o < outputs.end;) {
        const int64_t column = o - outputs.begin;
        if (o + kNum <= outputs.end && WeightBlock<kFormat, kNum>::share_a_tile(o)) {
            multiply_direct<kFormat, kRows, kNum, kHasScaledRows>(product.weight, o, block, column);
            o += kNum;
        } else {
            multiply_direct<kFormat, kRows, 1, kHasScaledRows>(product.weight, o, block, column);
            ++o;
        }
    }
}

template <WeightFormat kFormat, int kRows>
inline void multiply_direct_rows(const RowProduct& product) {
    if (product.num_rows != kRows) {
        if constexpr (kRows > 1) multiply_direct_rows<kFormat, kRows - 1>(product);
        return;
    }
    RowBlock block = row_block(product, 0, kRows);
    if constexpr (kFormat == WeightFormat::kFp8Block32) {
        if (scale_rows(product)) {
            for (int r = 0; r < kRows; ++r) block.x[r] = product.scratch + r * padded_columns(product.weight.num_in);
            return multiply_direct_block<kFormat, kRows, true>(product, block);
        }
    }
    multiply_direct_block<kFormat, kRows, false>(product, block);
}

// Values of `count` outputs from `first` on, padded to whole groups of columns and to a multiple of four outputs.
template <WeightFormat kFormat>
inline void decode_weights(const WeightMatrix& weight, int64_t first, int64_t count, float* out) {
    const int64_t stride = padded_columns(weight.num_in);
    for (int64_t i = 0; i < (count + kOutputs - 1) / kOutputs * kOutputs; ++i, out += stride) {
        const WeightRow<kFormat> row(weight, first + (i < count ? i : 0));
        F32x16 a, b;
        int64_t k = 0;
        for (; k + 32 <= weight.num_in; k += 32) {
            row.read(k, a, b);
            a.store(out + k);
            b.store(out + k + 16);
        }
        if (k == weight.num_in) continue;
        row.read(k, static_cast<int>(weight.num_in - k), a, b);
        a.store(out + k);
        b.store(out + k + 16);
    }
}

// Decoded weights times all rows; the outputs are `count` columns of the result from `column` on.
inline void multiply_block(const RowProduct& product, const float* w, int64_t column, int64_t count) {
    const int64_t stride = padded_columns(product.weight.num_in);
    for (int64_t t = 0; t < product.num_rows; t += kBlockRows) {
        const int64_t left = product.num_rows - t;
        const int rows = left < kBlockRows ? static_cast<int>(left) : kBlockRows;
        const RowBlock block = row_block(product, t, rows);
        for (int64_t i = 0; i < count; i += kOutputs) {
            const int n = count - i < kOutputs ? static_cast<int>(count - i) : kOutputs;
            multiply_decoded_rows<kBlockRows>(rows, w + i * stride, stride, n, block, column + i);
        }
    }
}

template <WeightFormat kFormat>
inline void multiply_format(const RowProduct& product) {
    if (product.num_rows <= kDirectRows) return multiply_direct_rows<kFormat, kDirectRows>(product);
    const int64_t step = decoded_outputs(product.weight.num_in);
    for (int64_t o = product.outputs.begin; o < product.outputs.end; o += step) {
        const int64_t count = product.outputs.end - o < step ? product.outputs.end - o : step;
        decode_weights<kFormat>(product.weight, o, count, product.scratch);
        multiply_block(product, product.scratch, o - product.outputs.begin, count);
    }
}

inline void round_rows_bf16(const RowProduct& product) {
    for (int64_t t = 0; t < product.num_rows; ++t) {
        float* out = product.out + t * product.out_stride;
        for (int64_t i = 0; i < product.outputs.size(); i += 16) {
            const int64_t left = product.outputs.size() - i;
            const int n = left < 16 ? static_cast<int>(left) : 16;
            round_bf16(F32x16::load(out + i, n)).store(out + i, n);
        }
    }
}

inline void multiply_rows(const RowProduct& product) {
    switch (product.weight.format) {
        case WeightFormat::kF32:
            multiply_format<WeightFormat::kF32>(product);
            break;
        case WeightFormat::kBf16:
            multiply_format<WeightFormat::kBf16>(product);
            break;
        case WeightFormat::kFp8Block32:
            multiply_format<WeightFormat::kFp8Block32>(product);
            break;
        case WeightFormat::kFp4Row32:
            multiply_format<WeightFormat::kFp4Row32>(product);
            break;
    }
    if (product.rounds_bf16) round_rows_bf16(product);
}

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
