// The MoE router, behind its matrix product.
#pragma once

#include <cstdint>

namespace deepinfer::cpu {

class Context;

// score = sqrt(softplus(logits)); chooses the top_k experts by score + bias (ties: the lower id), best first, and
// weighs them by score, divided by the chosen scores' sum + 1e-20 with `normalizes`, times scaling.
struct RouteArgs {
    const float* logits = nullptr;  // [num_rows, num_experts] gate @ x in float32
    const float* bias = nullptr;    // [num_experts]
    int64_t* ids = nullptr;         // [num_rows, top_k]
    float* weights = nullptr;       // [num_rows, top_k]
    float* margin = nullptr;        // [num_rows] or nullptr: biased score of the last chosen minus the first rejected,
                                    // inf when none is rejected
    int64_t num_rows = 0;
    int64_t num_experts = 0;
    int64_t top_k = 0;  // at most num_experts
    float scaling = 1.0f;
    bool normalizes = false;
};

void route(Context& context, const RouteArgs& args);

}  // namespace deepinfer::cpu
