// Mixture of experts: routed experts and the shared expert.
#pragma once

#include <cstdint>

#include "cpu/ops/weight_matrix.hpp"

namespace deepinfer::cpu {

class Context;

// expert(x, weight) = w2 @ Q8/32(silu(min(w1 @ x, limit)) * clamp(w3 @ x, -limit, limit) * weight)  (spec/model.md 8)
// out = expert[ids[0]](x, weights[0]) + ... rank by rank, then + shared(x, 1); added in float32, rounded once. One of
// the two parts may be absent. With `rounds_bf16` gate, up, the weighted hidden vector and each expert's result are
// rounded to bf16 as well. Products are those of ops/matmul.hpp, so a row's bits do not depend on the other rows.
struct MoeArgs {
    const float* x = nullptr;  // [num_rows, dim]
    int64_t x_stride = 0;
    const int64_t* ids = nullptr;    // [num_rows, top_k] experts, best first
    const float* weights = nullptr;  // [num_rows, top_k]
    WeightStack w1;                  // gate [E, hidden, dim]
    WeightStack w3;                  // up   [E, hidden, dim]
    WeightStack w2;                  // down [E, dim, hidden]
    WeightMatrix shared_w1;          // [shared hidden, dim]; without outputs: no shared expert
    WeightMatrix shared_w3;
    WeightMatrix shared_w2;  // [dim, shared hidden]
    float* out = nullptr;    // [num_rows, dim]; must not overlap x
    int64_t out_stride = 0;
    int64_t num_rows = 0;
    int64_t top_k = 0;         // 0: the shared expert alone
    float limit = 0.0f;        // swiglu_limit
    bool quantizes = false;    // x and hidden vectors pass Q8/32
    bool rounds_bf16 = false;  // see above
    float* scratch = nullptr;  // moe_scratch_floats(args) of them

    bool has_shared() const { return shared_w1.num_out != 0; }
};

// Depends on num_rows, top_k and the weights' sizes only.
int64_t moe_scratch_floats(const MoeArgs& args);

// Throws std::out_of_range when an id is no expert.
void moe(Context& context, const MoeArgs& args);

}  // namespace deepinfer::cpu
