// Hyper-connections: the read, write and mixing weights of one sublayer.
#pragma once

#include <cstdint>

#include "cpu/ops/stream_limit.hpp"

namespace deepinfer::cpu {

class Context;

// m = (fn @ f) * rsqrt(mean(f^2) + norm_eps) of the flattened streams f; then pre = sigmoid(m * scale[0] + base) + eps,
// post = 2 sigmoid(m * scale[1] + base), comb = sinkhorn(m * scale[2] + base): row softmax plus eps, columns divided by
// their sums plus eps, then sinkhorn_iters - 1 times rows and columns likewise. S = num_streams, at most kMaxStreams.
struct HcMixArgs {
    const float* streams = nullptr;  // [num_rows, S, dim]
    const float* fn = nullptr;       // [S * (S + 2), S * dim]
    const float* base = nullptr;     // [S * (S + 2)]
    const float* scale = nullptr;    // [3]
    float* pre = nullptr;            // [num_rows, S]
    float* post = nullptr;           // [num_rows, S]
    float* comb = nullptr;           // [num_rows, S, S], the first stream index is the one that hc_write sums over
    int64_t num_rows = 0;
    int64_t num_streams = 0;
    int64_t dim = 0;
    int64_t sinkhorn_iters = 0;
    float eps = 0.0f;
    float norm_eps = 0.0f;
};

// Throws std::invalid_argument for more than kMaxStreams streams.
void hc_mix(Context& context, const HcMixArgs& args);

}  // namespace deepinfer::cpu
