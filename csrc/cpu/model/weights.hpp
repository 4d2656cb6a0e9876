// The weights of a model: pointers into what the checkpoint holds, and small vectors widened to float32.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "cpu/model/model_config.hpp"
#include "cpu/model/tensor_table.hpp"
#include "cpu/ops/weight_matrix.hpp"

namespace deepinfer::cpu {

struct HyperConnectionWeights {
    const float* fn = nullptr;
    const float* base = nullptr;
    const float* scale = nullptr;
    const float* norm = nullptr;  // of what the sublayer reads
};

struct ProjectionWeights {
    WeightMatrix wq_a, wq_b, wkv, wo_a, wo_b;
    const float* q_norm = nullptr;
    const float* kv_norm = nullptr;
    const float* sink = nullptr;
};

struct CompressorWeights {
    WeightMatrix wkv, wgate, wk;  // wgate: ratio 2 only
    const float* norm = nullptr;
    const float* k_norm = nullptr;
};

struct IndexerWeights {
    WeightMatrix wq_b, weights_proj;
};

struct EngramWeights {
    const int64_t* multipliers = nullptr;
    const int64_t* primes = nullptr;
    const int64_t* offsets = nullptr;
    const uint8_t* codes = nullptr;
    const uint8_t* scales = nullptr;
    WeightMatrix wkv;
    const float* q = nullptr;
    const float* k = nullptr;
};

struct MoeWeights {
    WeightMatrix gate;
    const float* bias = nullptr;
    WeightStack w1, w3, w2;
    WeightMatrix shared_w1, shared_w3, shared_w2;
    int64_t num_picked = 0;
};

// cos and sin [max_positions, rope_dim / 2].
struct RopeWeights {
    const float* cos = nullptr;
    const float* sin = nullptr;
};

struct LayerWeights {
    HyperConnectionWeights attn_hc, ffn_hc;
    ProjectionWeights projections;
    CompressorWeights compressor;
    IndexerWeights indexer;
    MoeWeights moe;
    EngramWeights engram;
    RopeWeights rope;
};

struct DraftStageWeights {
    HyperConnectionWeights attn_hc, ffn_hc;
    ProjectionWeights projections;
    MoeWeights moe;
};

struct DraftWeights {
    WeightMatrix main_proj, markov_embedding, markov_head, confidence;
    const float* main_norm = nullptr;
    const float* norm = nullptr;
    std::vector<DraftStageWeights> stages;
};

struct ModelWeights {
    WeightMatrix embedding, head;
    const float* norm = nullptr;
    const int64_t* ngram_vocabulary = nullptr;  // [vocab_size] compressed token ids; Engram only
    RopeWeights window_rope, compressed_rope;
    std::vector<LayerWeights> layers;
    std::optional<DraftWeights> draft;
    std::deque<std::vector<float>> widened;  // what pointers to widened vectors point into

    ModelWeights() = default;
    ModelWeights(const ModelWeights&) = delete;
    ModelWeights& operator=(const ModelWeights&) = delete;
    ModelWeights(ModelWeights&&) = default;
};

// Names are those of the Python components, e.g. "layers.3.attention.projections.wq_a.codes". Throws
// std::invalid_argument that names a tensor which is missing or does not fit the config.
ModelWeights find_weights(const ModelConfig& config, const TensorTable& tensors);

}  // namespace deepinfer::cpu
