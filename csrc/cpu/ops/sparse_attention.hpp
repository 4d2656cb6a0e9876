// Attention of every row over its window and its selected entries.
#pragma once

#include <cstdint>

#include "cpu/ops/entry_view.hpp"
#include "cpu/ops/vector_rounding.hpp"

namespace deepinfer::cpu {

class Context;

// One softmax over window, entries and a sink logit: logits scale * (q . key), keys are also the values. Absent places
// (-1) cost nothing and what lies there is not read. A row's keys are decoded once and used by all its heads. The order
// of summation is that of the present places, so prefill and decode agree bit for bit.
struct SparseAttentionArgs {
    const float* q = nullptr;               // [num_rows, num_heads, dim]
    const float* window = nullptr;          // [M, dim] decoded key=value vectors
    const int64_t* window_index = nullptr;  // [num_rows, window_size] rows of `window`, -1: absent
    const EntryView* views = nullptr;       // entries by sequence; nullptr without entries
    const int64_t* row_view = nullptr;      // [num_rows] index into views; nullptr: row r uses views[r]
    const int64_t* picks = nullptr;         // [num_rows, num_picks] entries of the row's view, -1: absent
    const float* sink = nullptr;            // [num_heads] logits, not scaled
    float* out = nullptr;                   // [num_rows, num_heads, dim]
    // How entries are stored; kNone: as float32.
    VectorRounding entry_rounding = VectorRounding::kNone;
    int64_t num_rows = 0;
    int64_t num_heads = 0;
    int64_t dim = 0;
    int64_t window_size = 0;
    int64_t num_picks = 0;
    float scale = 1.0f;
    bool rounds_bf16 = false;
};

void sparse_attention(Context& context, const SparseAttentionArgs& args);

}  // namespace deepinfer::cpu
