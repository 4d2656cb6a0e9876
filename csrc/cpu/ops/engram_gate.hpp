// Adds the Engram value to the streams, gated by how well each stream matches its key.
#pragma once

#include <cstdint>

namespace deepinfer::cpu {

class Context;

// out = streams + sigmoid(sign(dot) * sqrt(max(|dot|, 1e-6))) * value; dot is the product of the RMS-normed, weighted
// stream and key, times dot_scale. May work in place (out == streams).
struct EngramGateArgs {
    const float* streams = nullptr;   // [num_rows, S, dim]
    const float* keys = nullptr;      // row r: [S, dim] at keys + r * keys_stride
    const float* value = nullptr;     // row r: [dim] at value + r * value_stride
    const float* q_weight = nullptr;  // [S, dim]
    const float* k_weight = nullptr;  // [S, dim]
    float* out = nullptr;             // [num_rows, S, dim]
    int64_t num_rows = 0;
    int64_t num_streams = 0;  // S
    int64_t dim = 0;
    int64_t keys_stride = 0;
    int64_t value_stride = 0;
    float eps = 0.0f;
    float dot_scale = 1.0f;  // float32(dim^(-1/2))
    bool rounds_bf16 = false;
};

void engram_gate(Context& context, const EngramGateArgs& args);

}  // namespace deepinfer::cpu
