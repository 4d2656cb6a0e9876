// Rotary position embedding on the last columns of vectors.
#pragma once

#include <cstdint>

namespace deepinfer::cpu {

class Context;

// Rotates the last `rotated` columns of every head as interleaved pairs (x[2j], x[2j+1]) by the angle of pair j; the
// other columns stay (are copied when out is not x). May work in place.
struct ApplyRopeArgs {
    const float* x = nullptr;            // [num_rows, num_heads, dim]
    const float* cos = nullptr;          // [num_positions, rotated / 2]
    const float* sin = nullptr;          // like cos
    const int64_t* positions = nullptr;  // [num_rows] row of the tables; nullptr: row r uses entry r
    float* out = nullptr;                // like x
    int64_t num_rows = 0;
    int64_t num_heads = 1;
    int64_t dim = 0;
    int64_t rotated = 0;   // even, at most dim
    bool inverse = false;  // by the negative angle
    bool rounds_bf16 = false;
};

void apply_rope(Context& context, const ApplyRopeArgs& args);

}  // namespace deepinfer::cpu
