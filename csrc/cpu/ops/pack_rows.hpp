// Rows of x as pairs of bf16 values, for kernels with bf16 dot products (kernels/multiply_pairs.hpp).
#pragma once

#include <cstdint>

namespace deepinfer::cpu {

// Of every 32 columns, i and i + 16 (i < 16) become one pair, the latter in its low word: a dot product of pairs adds
// the high words' product first. Pairs lie in the order 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15, in which
// FP4 codes are unpacked (kernels/weight_pairs.hpp) and lanes are summed (kernels/multiply_pairs.hpp) with least
// effort.
struct PackRowsArgs {
    const float* x = nullptr;  // [num_rows, num_columns], the layout of ops/row_product.hpp
    int64_t x_stride = 0;
    uint16_t* out = nullptr;
    int64_t out_stride = 0;   // words between rows
    int64_t num_columns = 0;  // a multiple of 32
};

}  // namespace deepinfer::cpu
