#include "cpu/model/layer.hpp"

#include <algorithm>

#include "cpu/model/attention.hpp"
#include "cpu/model/compressor.hpp"
#include "cpu/model/draft_features.hpp"
#include "cpu/model/engram.hpp"
#include "cpu/model/moe.hpp"

namespace deepinfer::cpu {

namespace {

// Moves the rows that the consumers keep to the front; rows ascend, so each moves to a place that is already free.
template <typename T>
void keep_rows(const StepRows& kept, int64_t row_size, T* values) {
    if (values == nullptr) return;
    for (int64_t i = 0; i < kept.num_rows(); ++i) {
        const int64_t row = kept.step_rows[static_cast<size_t>(i)];
        if (row != i) std::copy_n(values + row * row_size, row_size, values + i * row_size);
    }
}

void narrow(StepContext& step, const StepRows& kept, LayerState& state) {
    const ModelConfig& config = step.config;
    keep_rows(kept, config.num_streams * config.hidden_size, state.streams.values);
    keep_rows(kept, config.num_streams, state.streams.pre);
    keep_rows(kept, config.hidden_size, state.x);
    keep_rows(kept, config.num_ngrams, state.ngrams);
    step.rows = &kept;
}

}  // namespace

void run_layer(StepContext& step, const LayerWeights& weights, int64_t layer_id, LayerState& state,
               const StepRows* consumers) {
    const LayerRole& role = step.config.layers[static_cast<size_t>(layer_id)];
    Streams& streams = state.streams;
    if (role.has_engram) add_memory(step, weights.engram, state.ngrams, streams.values);
    read_streams(step, weights.attn_hc, streams, state.x);
    if (role.owns_kv) compress(step, weights, layer_id, state.x);
    if (role.is_boundary && consumers != nullptr) narrow(step, *consumers, state);
    if (step.num_rows() == 0) return;

    if (role.draft_target != kNone && step.features != nullptr)
        step.features->add(step, role.draft_target, streams.values);
    mix_streams(step, weights.attn_hc, streams);
    attend(step, weights, layer_id, state.x, state.out);
    write_streams(step, state.out, streams);

    read_streams(step, weights.ffn_hc, streams, state.x);
    mix_streams(step, weights.ffn_hc, streams);
    mix_experts(step, weights.moe, state.x, step.num_rows(), state.out);
    write_streams(step, state.out, streams);
}

}  // namespace deepinfer::cpu
