// Scores of compressed entries for every query row.
#pragma once

#include <cstdint>

#include "cpu/ops/entry_view.hpp"
#include "cpu/ops/vector_rounding.hpp"

namespace deepinfer::cpu {

class Context;

// scale * sum_h head_weights[h] * relu(q[h] . key) of every visible entry. Entries behind num_visible are not read.
// Neighbouring rows of one view share the decoding of its keys.
struct IndexScoresArgs {
    const float* q = nullptr;              // [num_rows, num_heads, dim]
    const float* head_weights = nullptr;   // [num_rows, num_heads]
    const EntryView* views = nullptr;      // index keys by sequence
    const int64_t* row_view = nullptr;     // [num_rows] index into views
    const int64_t* num_visible = nullptr;  // [num_rows] entries 0 .. num_visible-1 are visible, at most num_entries
    float* out = nullptr;                  // [num_rows, num_entries], -inf at invisible entries
    // How keys are stored; kNone: as float32.
    VectorRounding key_rounding = VectorRounding::kNone;
    int64_t num_rows = 0;
    int64_t num_heads = 0;
    int64_t dim = 0;
    int64_t num_entries = 0;
    float scale = 1.0f;
    bool rounds_bf16 = false;  // the scaled score
};

inline constexpr int64_t kKeyTile = 64;  // keys decoded at a time, at most

void index_scores(Context& context, const IndexScoresArgs& args);

}  // namespace deepinfer::cpu
