// The part of a matrix product that one call of the kernel computes.
#pragma once

#include <cstdint>

#include "cpu/ops/weight_matrix.hpp"
#include "cpu/range.hpp"

namespace deepinfer::cpu {

inline constexpr int64_t kGroupColumns = 32;
inline constexpr int64_t kTileOutputs = 32;  // outputs that are given to a thread at once

inline int64_t padded_columns(int64_t num_columns) {
    return (num_columns + kGroupColumns - 1) / kGroupColumns * kGroupColumns;
}

// How x is laid out for the kernel: rows of padded_columns(num_in) floats, zeros behind the last column. For FP4 each
// run of 32 columns has its even columns first and then its odd ones, the order in which its codes are read.
struct RowProduct {
    const float* x = nullptr;
    int64_t x_stride = 0;
    // The same rows as bf16 pairs (ops/pack_rows.hpp), padded_columns(num_in) each, or nullptr; x is there all the
    // same.
    const uint16_t* pairs = nullptr;
    int64_t pairs_stride = 0;
    const int32_t* x_index = nullptr;  // [num_rows] the row of x to take; nullptr: row t is row t
    int64_t num_rows = 0;
    WeightMatrix weight;
    Range outputs;         // of the weight
    float* out = nullptr;  // row 0, output outputs.begin; [num_rows, outputs.size()]
    int64_t out_stride = 0;
    bool rounds_bf16 = false;
    float* scratch = nullptr;  // row_product_scratch_floats(weight.num_in)

    int64_t row_number(int64_t t) const { return x_index != nullptr ? x_index[t] : t; }
    const float* row(int64_t t) const { return x + row_number(t) * x_stride; }
    const uint16_t* pair_row(int64_t t) const { return pairs + row_number(t) * pairs_stride; }
};

// Rows of pairs from that many words on, if there are any.
inline const uint16_t* offset(const uint16_t* pairs, int64_t words) {
    return pairs == nullptr ? nullptr : pairs + words;
}

// Outputs whose weights are decoded at once for a product of many rows: a multiple of 4 whose values stay in the cache.
inline int64_t decoded_outputs(int64_t num_in) {
    const int64_t outputs = (int64_t{1} << 16) / padded_columns(num_in > 0 ? num_in : 1) / 4 * 4;
    return outputs < 4 ? 4 : outputs > kTileOutputs ? kTileOutputs : outputs;
}

inline int64_t row_product_scratch_floats(int64_t num_in) {
    return decoded_outputs(num_in) * padded_columns(num_in);
}

}  // namespace deepinfer::cpu
