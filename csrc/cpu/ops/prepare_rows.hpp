// Rows of x as the product kernel wants them (ops/row_product.hpp).
#pragma once

#include <cstdint>

namespace deepinfer::cpu {

// out: the columns of x, through Q8/32 when `quantizes`, filled with zeros up to whole groups of 32 columns; with
// `splits_pairs` the even columns of every group first, then the odd ones.
struct PrepareRowsArgs {
    const float* x = nullptr;  // [num_rows, dim]
    int64_t x_stride = 0;
    float* out = nullptr;  // [num_rows, padded_columns(dim)], contiguous
    int64_t dim = 0;
    bool quantizes = false;
    bool splits_pairs = false;
};

// Elements that are worth a second thread: quantizing takes longer than most elementwise work.
inline constexpr int64_t kPrepareGrain = 1 << 11;

}  // namespace deepinfer::cpu
