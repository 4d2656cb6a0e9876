#include "cpu/model/attention.hpp"

#include <algorithm>

#include "cpu/model/indexer.hpp"
#include "cpu/model/projections.hpp"
#include "cpu/model/window.hpp"
#include "cpu/ops/sparse_attention.hpp"

namespace deepinfer::cpu {

namespace {

// Window keys [num_keys, d] of the step.
const float* window_keys(StepContext& step, const Projections& layer, const VectorCache& ring, const float* x) {
    const int64_t dim = step.config.head_dim, num_rows = step.num_rows();
    float* keys = step.workspace.take<float>(step.rows->num_keys * dim);
    const Workspace::Scope scope(step.workspace);
    float* rows = step.workspace.take<float>(num_rows * dim);
    key_value(step, layer, x, {step.rows->positions.data(), num_rows}, rows);
    fill_window(step, ring, rows, keys);
    return keys;
}

// What all rows of a layer attend to; a chunk of rows shifts the pointers of its own.
SparseAttentionArgs attention_args(StepContext& step, const LayerWeights& weights, const LayerRole& role) {
    const ModelConfig& config = step.config;
    SparseAttentionArgs args{.window_index = step.rows->window_index.data(),
                             .row_view = step.rows->row_seq.data(),
                             .sink = weights.projections.sink,
                             .num_rows = step.num_rows(),
                             .num_heads = config.num_heads,
                             .dim = config.head_dim,
                             .window_size = config.window,
                             .scale = config.softmax_scale,
                             .rounds_bf16 = config.rounds_bf16};
    if (!role.reads_entries()) return args;
    const VectorCache& cache = step.caches.main[static_cast<size_t>(role.kv_source)];
    args.views = entry_views(step, cache);
    args.picks = step.picks;
    args.num_picks = config.index_topk;
    args.entry_rounding = cache.format.stored_as();
    return args;
}

void attend_chunk(StepContext& step, const Projections& layer, const float* q_lora, SparseAttentionArgs args,
                  float* out) {
    const Workspace::Scope scope(step.workspace);
    const int64_t width = args.num_heads * args.dim;
    const PlacedRows rows{step.rows->positions.data() + (args.row_view - step.rows->row_seq.data()), args.num_rows};
    float* q = step.workspace.take<float>(args.num_rows * width);
    args.q = q;
    args.out = step.workspace.take<float>(args.num_rows * width);
    query(step, layer, q_lora, rows, q);
    sparse_attention(step.cpu, args);
    attention_output(step, layer, args.out, rows, out);
}

}  // namespace

void attend(StepContext& step, const LayerWeights& weights, int64_t layer_id, const float* x, float* out) {
    const ModelConfig& config = step.config;
    const LayerRole& role = config.layers[static_cast<size_t>(layer_id)];
    const Projections layer{weights.projections, weights.rope};
    const int64_t num_rows = step.num_rows();
    const Workspace::Scope scope(step.workspace);
    float* q_lora = step.workspace.take<float>(num_rows * config.q_lora_rank);
    query_latent(step, layer, x, num_rows, q_lora);
    if (role.owns_index) pick_entries(step, weights, layer_id, x, q_lora);
    const float* keys = window_keys(step, layer, step.caches.window[static_cast<size_t>(layer_id)], x);

    SparseAttentionArgs all = attention_args(step, weights, role);
    all.window = keys;
    const int64_t chunk = rows_per_chunk(2 * config.num_heads * config.head_dim);
    for (int64_t begin = 0; begin < num_rows; begin += chunk) {
        SparseAttentionArgs args = all;
        args.num_rows = std::min(chunk, num_rows - begin);
        args.window_index += begin * config.window;
        args.row_view += begin;
        if (args.picks != nullptr) args.picks += begin * config.index_topk;
        attend_chunk(step, layer, q_lora + begin * config.q_lora_rank, args, out + begin * config.hidden_size);
    }
}

}  // namespace deepinfer::cpu
