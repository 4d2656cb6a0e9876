#include "cpu/model/engram.hpp"

#include <algorithm>

#include "cpu/model/linear.hpp"
#include "cpu/ops/engram_gate.hpp"
#include "cpu/ops/engram_lookup.hpp"
#include "cpu/ops/ngram_rows.hpp"
#include "cpu/range.hpp"

namespace deepinfer::cpu {

void fill_ngrams(const ModelConfig& config, const StepInput& input, const int64_t* vocabulary, int64_t* ngrams) {
    for (int64_t s = 0; s < input.num_seqs; ++s) {
        const int32_t* lookback = input.lookback_ids + s * input.num_lookback;
        const int64_t first_row = input.cu_seqlens_q[s];
        for (int64_t row = first_row; row < input.cu_seqlens_q[s + 1]; ++row)
            for (int64_t back = 0; back < config.num_ngrams; ++back) {
                const int64_t outside = back - (row - first_row) - 1;  // >= 0: so far before the first row
                const int32_t id = outside < 0 ? input.token_ids[row - back] : lookback[outside];
                ngrams[row * config.num_ngrams + back] = id >= 0 ? vocabulary[id] : config.ngram_pad;
            }
    }
}

namespace {

void add_chunk(StepContext& step, const EngramWeights& weights, const int64_t* ngrams, Range rows, float* streams) {
    const ModelConfig& config = step.config;
    const int64_t num_lookups = (config.num_ngrams - 1) * config.engram_heads;
    const int64_t width = weights.wkv.num_out, stream_floats = config.num_streams * config.hidden_size;
    const Workspace::Scope scope(step.workspace);
    auto* table_rows = step.workspace.take<int64_t>(rows.size() * num_lookups);
    float* memory = step.workspace.take<float>(rows.size() * num_lookups * config.engram_dim);
    float* projected = step.workspace.take<float>(rows.size() * width);  // keys of the streams, then the value
    ngram_rows(step.cpu, {.ids = ngrams + rows.begin * config.num_ngrams,
                          .multipliers = weights.multipliers,
                          .primes = weights.primes,
                          .offsets = weights.offsets,
                          .rows = table_rows,
                          .num_tokens = rows.size(),
                          .n = config.num_ngrams,
                          .num_heads = config.engram_heads});
    engram_lookup(step.cpu, {.rows = table_rows,
                             .codes = weights.codes,
                             .scales = weights.scales,
                             .out = memory,
                             .num_rows = rows.size() * num_lookups,
                             .dim = config.engram_dim});
    linear(step, weights.wkv, {.x = memory, .out = projected, .num_rows = rows.size()});
    float* own = streams + rows.begin * stream_floats;
    engram_gate(step.cpu, {.streams = own,
                           .keys = projected,
                           .value = projected + stream_floats,
                           .q_weight = weights.q,
                           .k_weight = weights.k,
                           .out = own,
                           .num_rows = rows.size(),
                           .num_streams = config.num_streams,
                           .dim = config.hidden_size,
                           .keys_stride = width,
                           .value_stride = width,
                           .eps = config.norm_eps,
                           .dot_scale = config.engram_scale,
                           .rounds_bf16 = config.rounds_bf16});
}

}  // namespace

void add_memory(StepContext& step, const EngramWeights& weights, const int64_t* ngrams, float* streams) {
    const int64_t chunk = rows_per_chunk(weights.wkv.num_out + 2 * weights.wkv.num_in);
    for (int64_t begin = 0; begin < step.num_rows(); begin += chunk)
        add_chunk(step, weights, ngrams, {begin, std::min(begin + chunk, step.num_rows())}, streams);
}

}  // namespace deepinfer::cpu
