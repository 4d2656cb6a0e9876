#include "cpu/model/projections.hpp"

#include "cpu/model/linear.hpp"
#include "cpu/ops/apply_rope.hpp"
#include "cpu/ops/rms_norm.hpp"

namespace deepinfer::cpu {

namespace {

void normalize(StepContext& step, float* x, const float* weight, int64_t num_rows, int64_t dim) {
    rms_norm(step.cpu, {.x = x,
                        .weight = weight,
                        .out = x,
                        .num_rows = num_rows,
                        .dim = dim,
                        .eps = step.config.norm_eps,
                        .rounds_bf16 = step.config.rounds_bf16});
}

ApplyRopeArgs in_place(const StepContext& step, RopeWeights rope, float* x, PlacedRows rows, int64_t num_heads) {
    return {.x = x,
            .cos = rope.cos,
            .sin = rope.sin,
            .positions = rows.positions,
            .out = x,
            .num_rows = rows.num_rows,
            .num_heads = num_heads,
            .dim = step.config.head_dim,
            .rotated = step.config.rope_dim,
            .rounds_bf16 = step.config.rounds_bf16};
}

}  // namespace

void query_latent(StepContext& step, const Projections& layer, const float* x, int64_t num_rows, float* out) {
    linear(step, layer.weights.wq_a, {.x = x, .out = out, .num_rows = num_rows});
    normalize(step, out, layer.weights.q_norm, num_rows, step.config.q_lora_rank);
}

void key_value(StepContext& step, const Projections& layer, const float* x, PlacedRows rows, float* out) {
    linear(step, layer.weights.wkv, {.x = x, .out = out, .num_rows = rows.num_rows});
    normalize(step, out, layer.weights.kv_norm, rows.num_rows, step.config.head_dim);
    apply_rope(step.cpu, in_place(step, layer.rope, out, rows, 1));
}

void query(StepContext& step, const Projections& layer, const float* q_lora, PlacedRows rows, float* out) {
    linear(step, layer.weights.wq_b, {.x = q_lora, .out = out, .num_rows = rows.num_rows});
    apply_rope(step.cpu, in_place(step, layer.rope, out, rows, step.config.num_heads));
}

void attention_output(StepContext& step, const Projections& layer, float* heads, PlacedRows rows, float* out) {
    ApplyRopeArgs back = in_place(step, layer.rope, heads, rows, step.config.num_heads);
    back.inverse = true;
    apply_rope(step.cpu, back);
    const Workspace::Scope scope(step.workspace);
    float* low_rank = step.workspace.take<float>(rows.num_rows * layer.weights.wo_a.num_out);
    linear(step, layer.weights.wo_a,
           {.x = heads, .out = low_rank, .num_rows = rows.num_rows, .num_groups = step.config.o_groups});
    linear(step, layer.weights.wo_b, {.x = low_rank, .out = out, .num_rows = rows.num_rows});
}

}  // namespace deepinfer::cpu
