#include "cpu/model/compressor.hpp"

#include <algorithm>
#include <cstring>

#include "cpu/model/linear.hpp"
#include "cpu/model/window.hpp"
#include "cpu/ops/apply_rope.hpp"
#include "cpu/ops/compress_pairs.hpp"
#include "cpu/ops/rms_norm.hpp"

namespace deepinfer::cpu {

namespace {

// Projections [n, d] of the rows whose entries are to be written.
void pool_single(StepContext& step, const CompressorWeights& weights, const EntryRows& entries, const float* x,
                 float* out) {
    const int64_t count = std::ssize(entries.new_rows), dim = step.config.hidden_size;
    const Workspace::Scope scope(step.workspace);
    if (count < step.num_rows()) {
        float* chosen = step.workspace.take<float>(count * dim);
        for (int64_t i = 0; i < count; ++i)
            std::copy_n(x + entries.new_rows[static_cast<size_t>(i)] * dim, dim, chosen + i * dim);
        x = chosen;
    }
    linear(step, weights.wkv, {.x = x, .out = out, .num_rows = count});
}

// Gated sums [n, d] of the pairs that this step completes. An unfinished pair's float32 (score, value) stays in the
// ring, which is read before it is written.
void pool_pairs(StepContext& step, const CompressorWeights& weights, const StateCache& ring, const float* x,
                float* out) {
    const StepRows& rows = *step.rows;
    const EntryRows& entries = rows.entries_of(2);
    const int64_t dim = ring.dim, num_rows = rows.num_rows(), num_pairs = std::ssize(entries.new_rows);
    const Workspace::Scope scope(step.workspace);
    float* made = step.workspace.take<float>(num_rows * 2 * dim);  // [T, (score, value), d]
    const LinearArgs product{.x = x, .num_rows = num_rows, .out_stride = 2 * dim, .keeps_fp32 = true};
    LinearArgs score = product, value = product;
    score.out = made;
    value.out = made + dim;
    linear(step, weights.wgate, score);
    linear(step, weights.wkv, value);

    auto** first = step.workspace.take<const float*>(num_pairs);
    auto** second = step.workspace.take<const float*>(num_pairs);
    for (int64_t i = 0; i < num_pairs; ++i) {
        const auto row = static_cast<size_t>(entries.new_rows[static_cast<size_t>(i)]);
        const SequenceRows& seq = rows.seqs[static_cast<size_t>(rows.row_seq[row])];
        const int64_t before = rows.positions[row] - 1;
        second[i] = made + static_cast<int64_t>(row) * 2 * dim;
        first[i] = before >= seq.start ? second[i] - 2 * dim : ring.at(seq.state_slot, before % ring.num_entries);
    }
    compress_pairs(step.cpu, {.first = first,
                              .second = second,
                              .out = out,
                              .num_pairs = num_pairs,
                              .dim = dim,
                              .rounds_bf16 = step.config.rounds_bf16});
    for (const SequenceRows& seq : rows.seqs)
        for (int64_t row = first_kept_row(seq, ring.num_entries); row < seq.end_row(); ++row)
            std::memcpy(ring.at(seq.state_slot, seq.position_of(row) % ring.num_entries), made + row * 2 * dim,
                        static_cast<size_t>(2 * dim) * sizeof(float));
}

struct Vectors {
    float* values = nullptr;  // [n, dim]
    int64_t count = 0;
    int64_t dim = 0;
};

void normalize(StepContext& step, Vectors vectors, const float* weight) {
    rms_norm(step.cpu, {.x = vectors.values,
                        .weight = weight,
                        .out = vectors.values,
                        .num_rows = vectors.count,
                        .dim = vectors.dim,
                        .eps = step.config.norm_eps,
                        .rounds_bf16 = step.config.rounds_bf16});
}

// Rotates the completed entries' vectors to the positions of their groups and writes them to their blocks.
void store_entries(StepContext& step, const EntryRows& entries, RopeWeights rope, Vectors vectors,
                   const VectorCache& cache) {
    const Workspace::Scope scope(step.workspace);
    apply_rope(step.cpu, {.x = vectors.values,
                          .cos = rope.cos,
                          .sin = rope.sin,
                          .positions = entries.new_starts.data(),
                          .out = vectors.values,
                          .num_rows = vectors.count,
                          .dim = vectors.dim,
                          .rotated = step.config.rope_dim,
                          .rounds_bf16 = step.config.rounds_bf16});
    const int64_t bytes = cache.format.num_bytes();
    auto* encoded = step.workspace.take<uint8_t>(vectors.count * bytes);
    encode(step, cache.format, vectors.values, vectors.count, encoded);
    for (int64_t i = 0; i < vectors.count; ++i) {
        const auto row = static_cast<size_t>(entries.new_rows[static_cast<size_t>(i)]);
        const int32_t* blocks = step.rows->seqs[static_cast<size_t>(step.rows->row_seq[row])].blocks;
        const int64_t entry = entries.new_starts[static_cast<size_t>(i)] / entries.ratio;
        std::memcpy(cache.at(blocks[entry / cache.num_entries], entry % cache.num_entries), encoded + i * bytes,
                    static_cast<size_t>(bytes));
    }
}

}  // namespace

void compress(StepContext& step, const LayerWeights& weights, int64_t layer_id, const float* x) {
    const ModelConfig& config = step.config;
    const auto layer = static_cast<size_t>(layer_id);
    const EntryRows& entries = step.rows->entries_of(config.layers[layer].ratio);
    const CompressorWeights& own = weights.compressor;
    const Workspace::Scope scope(step.workspace);
    Vectors latent{.count = std::ssize(entries.new_rows), .dim = config.head_dim};
    latent.values = step.workspace.take<float>(latent.count * latent.dim);
    if (entries.ratio == 1)
        pool_single(step, own, entries, x, latent.values);
    else
        pool_pairs(step, own, step.caches.compressor[layer], x, latent.values);
    normalize(step, latent, own.norm);

    Vectors key{.count = latent.count, .dim = config.index_dim};
    key.values = step.workspace.take<float>(key.count * key.dim);
    linear(step, own.wk, {.x = latent.values, .out = key.values, .num_rows = latent.count});
    normalize(step, key, own.k_norm);
    store_entries(step, entries, weights.rope, key, step.caches.index[layer]);
    store_entries(step, entries, weights.rope, latent, step.caches.main[layer]);
}

}  // namespace deepinfer::cpu
