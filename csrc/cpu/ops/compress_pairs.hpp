// Ratio-2 compression: two tokens' values become one, weighted per column.
#pragma once

#include <cstdint>

namespace deepinfer::cpu {

class Context;

// Softmax over the two scores of every column, applied to the two values. The operands of pair n are given as pointers,
// because its first token may be in the compressor ring: each points to [2, dim], score then value, of one token (the
// layout of that ring).
struct CompressPairsArgs {
    const float* const* first = nullptr;   // [num_pairs] -> float [2, dim]
    const float* const* second = nullptr;  // [num_pairs] -> float [2, dim]
    float* out = nullptr;                  // [num_pairs, dim]
    int64_t num_pairs = 0;
    int64_t dim = 0;
    bool rounds_bf16 = false;
};

void compress_pairs(Context& context, const CompressPairsArgs& args);

}  // namespace deepinfer::cpu
