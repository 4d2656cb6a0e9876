#include "cpu/model/draft_stage.hpp"

#include <algorithm>

#include "cpu/model/moe.hpp"
#include "cpu/model/projections.hpp"
#include "cpu/model/vector_runs.hpp"
#include "cpu/model/window.hpp"
#include "cpu/ops/sparse_attention.hpp"

namespace deepinfer::cpu {

namespace {

// Keys [R * (W + G), d] of all blocks, all through the cache's rounding. Context places before the start hold anything.
const float* block_keys(StepContext& step, const Projections& layer, const VectorCache& ring, const DraftBlocks& blocks,
                        const float* x) {
    const int64_t dim = step.config.head_dim, num_rows = step.num_rows(), bytes = ring.format.num_bytes();
    float* keys = step.workspace.take<float>(std::ssize(blocks.rows.seqs) * blocks.keys_per_request() * dim);
    const Workspace::Scope scope(step.workspace);
    float* own = step.workspace.take<float>(num_rows * dim);
    auto* encoded = step.workspace.take<uint8_t>(num_rows * bytes);
    key_value(step, layer, x, {blocks.rows.positions.data(), num_rows}, own);
    encode(step, ring.format, own, num_rows, encoded);
    VectorRuns runs(step, ring.format, std::ssize(blocks.rows.seqs));
    float* request = keys;
    for (const SequenceRows& block : blocks.rows.seqs) {
        const int64_t count = std::min(block.start, blocks.window);
        runs.add_ring(ring, {block.state_slot, block.start - count, count}, request + (blocks.window - count) * dim);
        runs.add(encoded + block.first_row * bytes, block.num_rows, request + blocks.window * dim);
        request += blocks.keys_per_request() * dim;
    }
    runs.decode(step);
    return keys;
}

void attend(StepContext& step, const Projections& layer, const VectorCache& ring, const DraftBlocks& blocks,
            LayerState& state) {
    const ModelConfig& config = step.config;
    const PlacedRows rows{blocks.rows.positions.data(), step.num_rows()};
    const int64_t width = config.num_heads * config.head_dim;
    const Workspace::Scope scope(step.workspace);
    float* q_lora = step.workspace.take<float>(rows.num_rows * config.q_lora_rank);
    float* q = step.workspace.take<float>(rows.num_rows * width);
    float* heads = step.workspace.take<float>(rows.num_rows * width);
    query_latent(step, layer, state.x, rows.num_rows, q_lora);
    query(step, layer, q_lora, rows, q);
    sparse_attention(step.cpu, {.q = q,
                                .window = block_keys(step, layer, ring, blocks, state.x),
                                .window_index = blocks.rows.window_index.data(),
                                .sink = layer.weights.sink,
                                .out = heads,
                                .num_rows = rows.num_rows,
                                .num_heads = config.num_heads,
                                .dim = config.head_dim,
                                .window_size = blocks.keys_per_request(),
                                .scale = config.softmax_scale,
                                .rounds_bf16 = config.rounds_bf16});
    attention_output(step, layer, heads, rows, state.out);
}

}  // namespace

void run_draft_stage(StepContext& step, const DraftStageWeights& weights, RopeWeights rope, const VectorCache& ring,
                     const DraftBlocks& blocks, LayerState& state) {
    Streams& streams = state.streams;
    read_streams(step, weights.attn_hc, streams, state.x);
    mix_streams(step, weights.attn_hc, streams);
    attend(step, {weights.projections, rope}, ring, blocks, state);
    write_streams(step, state.out, streams);

    read_streams(step, weights.ffn_hc, streams, state.x);
    mix_streams(step, weights.ffn_hc, streams);
    mix_experts(step, weights.moe, state.x, step.num_rows(), state.out);
    write_streams(step, state.out, streams);
}

}  // namespace deepinfer::cpu
