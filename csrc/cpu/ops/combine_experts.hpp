// The sum of a row's experts.
#pragma once

#include <cstdint>

namespace deepinfer::cpu {

// out[t] = routed[slots[t, 0]] + routed[slots[t, 1]] + ... + shared[t], in that order.
struct CombineExpertsArgs {
    const float* routed = nullptr;   // [num_rows * top_k, dim]
    const float* shared = nullptr;   // [num_rows, dim]
    const int32_t* slots = nullptr;  // [num_rows, top_k] rows of `routed`
    float* out = nullptr;
    int64_t out_stride = 0;
    int64_t top_k = 0;
    int64_t dim = 0;
    bool rounds_bf16 = false;
};

}  // namespace deepinfer::cpu
