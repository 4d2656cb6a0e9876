// Hyper-connections: the streams after a sublayer.
#pragma once

#include <cstdint>

#include "cpu/ops/stream_limit.hpp"

namespace deepinfer::cpu {

class Context;

// new[j] = post[j] * out + sum_i comb[i][j] * streams[i]. May work in place (new_streams == streams).
struct HcWriteArgs {
    const float* streams = nullptr;  // [num_rows, S, dim]
    const float* out = nullptr;      // [num_rows, dim], what the sublayer gave
    const float* post = nullptr;     // [num_rows, S]
    const float* comb = nullptr;     // [num_rows, S, S]
    float* new_streams = nullptr;    // [num_rows, S, dim]
    int64_t num_rows = 0;
    int64_t num_streams = 0;  // S, at most kMaxStreams
    int64_t dim = 0;
    bool rounds_bf16 = false;
};

// Throws std::invalid_argument for more than kMaxStreams streams.
void hc_write(Context& context, const HcWriteArgs& args);

}  // namespace deepinfer::cpu
