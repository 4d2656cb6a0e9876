// The k best entries of every row.
#pragma once

#include <cstdint>

namespace deepinfer::cpu {

class Context;

// Numbers of the k highest scores of a row; equal scores go to the lower number, -inf and NaN are never chosen.
struct SelectTopkArgs {
    const float* scores = nullptr;  // [num_rows, num_entries]
    int64_t* picks = nullptr;       // [num_rows, k], ascending, -1 behind the last chosen
    int64_t num_rows = 0;
    int64_t num_entries = 0;
    int64_t k = 0;
};

// Candidates that a kernel collects before it drops those that cannot be among the k best.
inline int64_t topk_capacity(int64_t k) {
    return 2 * k + 1024;
}

void select_topk(Context& context, const SelectTopkArgs& args);

}  // namespace deepinfer::cpu
