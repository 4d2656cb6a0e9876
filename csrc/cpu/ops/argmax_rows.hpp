// Greedy choice.
#pragma once

#include <cstdint>

namespace deepinfer::cpu {

class Context;

// The lowest id of each row's maximum. A row with NaN, or whose maximum is not finite, has is_finite 0 (its token is
// then of no use).
struct ArgmaxRowsArgs {
    const float* logits = nullptr;  // row r at logits + r * stride
    int64_t* tokens = nullptr;      // [num_rows]
    uint8_t* is_finite = nullptr;   // [num_rows] or nullptr
    int64_t num_rows = 0;
    int64_t num_ids = 0;  // columns looked at
    int64_t stride = 0;
};

void argmax_rows(Context& context, const ArgmaxRowsArgs& args);

}  // namespace deepinfer::cpu
