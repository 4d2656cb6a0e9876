// Hides the entries outside a row's candidate blocks.
#pragma once

#include <cstdint>

namespace deepinfer::cpu {

class Context;

// out = scores inside the blocks, -inf elsewhere. May work in place.
struct RestrictToBlocksArgs {
    const float* scores = nullptr;    // [num_rows, num_entries]
    const int64_t* blocks = nullptr;  // [num_rows, num_blocks] block numbers in any order, -1: none
    float* out = nullptr;             // [num_rows, num_entries]
    int64_t num_rows = 0;
    int64_t num_entries = 0;
    int64_t num_blocks = 0;
    int64_t block_size = 0;
};

void restrict_to_blocks(Context& context, const RestrictToBlocksArgs& args);

}  // namespace deepinfer::cpu
