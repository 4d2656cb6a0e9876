// Hyper-connections: the vector that a sublayer reads from the streams, normed if wanted.
#pragma once

#include <cstdint>

#include "cpu/ops/stream_limit.hpp"

namespace deepinfer::cpu {

class Context;

// out = sum_i pre[i] * streams[i]. With norms that sum is rounded (if rounds_bf16) and passes rms_norm with norm_weight
// and eps: bit-equal to hc_read and rms_norm one after the other.
struct HcReadArgs {
    const float* streams = nullptr;      // [num_rows, num_streams, dim]
    const float* pre = nullptr;          // [num_rows, num_streams]
    const float* norm_weight = nullptr;  // [dim], used with norms only
    float* out = nullptr;                // [num_rows, dim]
    int64_t num_rows = 0;
    int64_t num_streams = 0;
    int64_t dim = 0;
    float eps = 0.0f;  // of the norm
    bool norms = false;
    bool rounds_bf16 = false;
};

// Throws std::invalid_argument for more than kMaxStreams streams.
void hc_read(Context& context, const HcReadArgs& args);

}  // namespace deepinfer::cpu
