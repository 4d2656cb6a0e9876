// Selection from small arrays, for kernels (which may not use the standard library's templates themselves).
#pragma once

#include <cstdint>

namespace deepinfer::cpu {

// The k-th largest of n values without NaN, 1 <= k <= n; reorders them.
float kth_largest(float* values, int64_t n, int64_t k);

// Sorts n keys, largest first.
void sort_descending(int64_t* keys, int64_t n);

}  // namespace deepinfer::cpu
