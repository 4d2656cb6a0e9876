// Sizes and flags of a model, as the program needs them.
#pragma once

#include <cstdint>
#include <vector>

namespace deepinfer::cpu {

// Which rows go through the consumer layers of a prefill (YOCO).
enum class YocoMode { kOff, kMask, kCompact };

inline constexpr int64_t kNone = -1;

// What one target layer does; see deepinfer/config/layer_plan.py. Layers are numbers, kNone for none.
struct LayerRole {
    int64_t ratio = 0;  // tokens per compressed entry; 0 for a window-only layer
    int64_t kv_source = kNone;
    int64_t index_source = kNone;
    bool owns_kv = false;
    bool owns_index = false;
    bool is_candidate_source = false;
    bool uses_candidates = false;
    bool has_engram = false;
    int64_t draft_target = kNone;  // place of its streams among the draft model's features
    bool is_boundary = false;      // first layer with ratio 1: from here on YOCO may drop rows

    bool reads_entries() const { return kv_source != kNone && index_source != kNone; }
};

struct ModelConfig {
    int64_t vocab_size = 0;
    int64_t hidden_size = 0;
    int64_t max_positions = 0;  // positions that the rotary tables cover
    int64_t num_streams = 1;
    int64_t sinkhorn_iters = 0;
    float hc_eps = 0.0f;
    float norm_eps = 0.0f;

    int64_t num_heads = 0;
    int64_t head_dim = 0;
    int64_t rope_dim = 0;
    int64_t q_lora_rank = 0;
    int64_t o_lora_rank = 0;
    int64_t o_groups = 1;
    int64_t window = 0;
    float softmax_scale = 0.0f;

    int64_t index_heads = 0;
    int64_t index_dim = 0;
    int64_t index_topk = 0;
    float index_scale = 0.0f;
    int64_t candidate_blocks = 0;
    int64_t candidate_block_size = 0;

    int64_t num_experts = 0;
    int64_t num_picked = 0;
    int64_t intermediate_size = 0;
    bool normalizes_weights = false;
    float routed_scaling = 1.0f;
    float swiglu_limit = 0.0f;

    int64_t ngram_pad = 0;   // compressed id that stands before the start
    int64_t num_ngrams = 0;  // tokens per n-gram context, the row's own included; 0 without Engram
    int64_t engram_heads = 0;
    int64_t engram_dim = 0;
    float engram_scale = 1.0f;  // of the product of a stream and its key

    int64_t num_draft_stages = 0;
    int64_t num_draft_experts = 0;
    int64_t num_draft_picked = 0;
    int64_t markov_rank = 0;
    int32_t noise_token_id = 0;

    bool rounds_bf16 = false;  // stored activations are bf16 values
    bool quantizes = false;    // inputs of quantized matrices pass Q8/32, index queries Q4/32
    YocoMode yoco = YocoMode::kOff;
    std::vector<LayerRole> layers;
};

}  // namespace deepinfer::cpu
