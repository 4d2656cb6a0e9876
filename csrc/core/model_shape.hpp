// The sizes of a model that decide what a step costs. Filled by deepinfer/worker/model_shape.py.
#pragma once

#include <cstdint>
#include <vector>

namespace deepinfer {

// Which prompt rows go through the consumer layers (doc/yoco.md).
enum class YocoMode : uint8_t { kOff = 0, kMask = 1, kCompact = 2 };

// Roles of one target layer; the names are those of deepinfer/config/layer_plan.py.
struct LayerShape {
    int64_t ratio = 0;  // tokens per compressed entry; 0: window only
    bool owns_kv = false;
    bool owns_index = false;
    bool uses_candidates = false;  // its selection is restricted to the candidate blocks; ratio 1 only
    bool has_engram = false;
    bool is_draft_target = false;  // the draft model reads the streams before its attention
};

struct ModelShape {
    std::vector<LayerShape> layers;
    int64_t first_consumer = 0;  // first layer that YOCO prefill cuts short; number of layers: none

    int64_t vocab_size = 0;
    int64_t hidden_size = 0;
    int64_t num_streams = 0;  // hc_mult
    int64_t num_heads = 0;
    int64_t head_dim = 0;
    int64_t q_lora_rank = 0;
    int64_t o_lora_rank = 0;
    int64_t o_groups = 0;
    int64_t sliding_window = 0;
    int64_t index_heads = 0;
    int64_t index_dim = 0;
    int64_t index_topk = 0;
    int64_t candidate_blocks = 0;
    int64_t candidate_block_size = 1;
    int64_t num_experts = 0;
    int64_t experts_per_token = 0;
    int64_t expert_width = 0;
    int64_t engram_lookups = 0;  // table rows of a token in one Engram layer
    int64_t engram_width = 0;    // values of a table row

    // Draft model. num_drafts = 0: it is not run, and nothing of it is counted.
    int64_t num_drafts = 0;  // rows of a block
    int64_t draft_stages = 0;
    int64_t draft_experts = 0;
    int64_t draft_experts_per_token = 0;
    int64_t markov_rank = 0;

    // Bytes of one stored vector, and how many of them a state slot's ring holds.
    int64_t activation_bytes = 2;  // of one value
    int64_t main_bytes = 0;
    int64_t index_bytes = 0;
    int64_t window_bytes = 0;
    int64_t compressor_bytes = 0;
    int64_t window_ring = 0;
    int64_t rollback = 0;  // compressor rings hold ratio + max(0, rollback - 1)
};

}  // namespace deepinfer
