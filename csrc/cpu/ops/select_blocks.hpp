// The best blocks of consecutive entries of every row.
#pragma once

#include <cstdint>

namespace deepinfer::cpu {

class Context;

// Blocks by their best score (NaN counts as -inf); the block of entry num_visible - 1 always counts. Equal scores go to
// the lower number; a block of -inf is not chosen.
struct SelectBlocksArgs {
    const float* scores = nullptr;         // [num_rows, num_entries], -inf at invisible entries
    const int64_t* num_visible = nullptr;  // [num_rows]
    int64_t* blocks = nullptr;             // [num_rows, num_blocks], ascending, -1 padded
    int64_t num_rows = 0;
    int64_t num_entries = 0;
    int64_t block_size = 0;
    int64_t num_blocks = 0;
};

void select_blocks(Context& context, const SelectBlocksArgs& args);

}  // namespace deepinfer::cpu
