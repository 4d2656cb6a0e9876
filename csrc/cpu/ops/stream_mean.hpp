// Mean of the residual streams.
#pragma once

#include <cstdint>

#include "cpu/ops/stream_limit.hpp"

namespace deepinfer::cpu {

class Context;

// out = (sum of the streams) / num_streams.
struct StreamMeanArgs {
    const float* streams = nullptr;  // [num_rows, num_streams, dim]
    float* out = nullptr;            // [num_rows, dim]
    int64_t num_rows = 0;
    int64_t num_streams = 0;
    int64_t dim = 0;
    bool rounds_bf16 = false;
};

// Throws std::invalid_argument for more than kMaxStreams streams.
void stream_mean(Context& context, const StreamMeanArgs& args);

}  // namespace deepinfer::cpu
