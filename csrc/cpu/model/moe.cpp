#include "cpu/model/moe.hpp"

#include <algorithm>

#include "cpu/model/linear.hpp"
#include "cpu/ops/moe.hpp"
#include "cpu/ops/route.hpp"

namespace deepinfer::cpu {

namespace {

MoeArgs expert_args(const ModelConfig& config, const MoeWeights& weights) {
    return {.x_stride = config.hidden_size,
            .w1 = weights.w1,
            .w3 = weights.w3,
            .w2 = weights.w2,
            .shared_w1 = weights.shared_w1,
            .shared_w3 = weights.shared_w3,
            .shared_w2 = weights.shared_w2,
            .out_stride = config.hidden_size,
            .top_k = weights.num_picked,
            .limit = config.swiglu_limit,
            .quantizes = config.quantizes,
            .rounds_bf16 = config.rounds_bf16};
}

void run_chunk(StepContext& step, const MoeWeights& weights, MoeArgs args) {
    const Workspace::Scope scope(step.workspace);
    const int64_t num_experts = weights.gate.num_out, num_picked = weights.num_picked;
    float* logits = step.workspace.take<float>(args.num_rows * num_experts);
    auto* ids = step.workspace.take<int64_t>(args.num_rows * num_picked);
    float* picked_weights = step.workspace.take<float>(args.num_rows * num_picked);
    linear(step, weights.gate, {.x = args.x, .out = logits, .num_rows = args.num_rows, .keeps_fp32 = true});
    route(step.cpu, {.logits = logits,
                     .bias = weights.bias,
                     .ids = ids,
                     .weights = picked_weights,
                     .num_rows = args.num_rows,
                     .num_experts = num_experts,
                     .top_k = num_picked,
                     .scaling = step.config.routed_scaling,
                     .normalizes = step.config.normalizes_weights});
    args.ids = ids;
    args.weights = picked_weights;
    args.scratch = step.workspace.take<float>(moe_scratch_floats(args));
    moe(step.cpu, args);
}

}  // namespace

void mix_experts(StepContext& step, const MoeWeights& weights, const float* x, int64_t num_rows, float* out) {
    MoeArgs args = expert_args(step.config, weights);
    args.num_rows = 1;
    const int64_t chunk = rows_per_chunk(moe_scratch_floats(args));
    for (int64_t begin = 0; begin < num_rows; begin += chunk) {
        args.x = x + begin * step.config.hidden_size;
        args.out = out + begin * step.config.hidden_size;
        args.num_rows = std::min(chunk, num_rows - begin);
        run_chunk(step, weights, args);
    }
}

}  // namespace deepinfer::cpu
