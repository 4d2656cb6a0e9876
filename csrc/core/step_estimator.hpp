// Multiply-adds and bytes of a step, from the model's sizes and the plan's geometry alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/entry_counts.hpp"
#include "core/model_shape.hpp"
#include "core/step_cost.hpp"
#include "core/step_plan.hpp"

namespace deepinfer {

// Rows of one sequence in a step.
struct SequenceRows {
    int64_t context_len = 0;  // tokens in the caches before; the rows stand at context_len, context_len + 1, ...
    int64_t num_rows = 0;
    int64_t consumer_start = 0;  // first position that consumer layers keep; unused with YocoMode::kOff
    int64_t num_logit_rows = 0;  // rows whose logits are wanted
    int64_t window_start = 0;    // first position that windows may look at
    int64_t entry_start = 0;     // first position whose entries are written, a multiple of every ratio
};

// Counts what StepCost says for one pass of the target model (with drafts, also the draft context behind it), or one
// pass of the draft model. Takes some tens of nanoseconds a sequence; immutable, so any thread may use it.
class StepEstimator {
  public:
    // Throws std::invalid_argument that names the first wrong field.
    StepEstimator(ModelShape shape, YocoMode yoco);

    // keeps_draft_context: as in StepPlan; nothing without drafts.
    StepCost target_pass(std::span<const SequenceRows> sequences, bool keeps_draft_context = true) const;
    // One block a request; last_positions: of the newest token that the target model has run.
    StepCost draft_pass(std::span<const int64_t> last_positions) const;
    // Both passes of a plan: logits of the rows that sample; drafts behind it as if all verified ones were accepted.
    StepCost plan_cost(const StepPlan& plan) const;

    const ModelShape& shape() const { return shape_; }

  private:
    // The rows that one half of the layers sees: below the first consumer layer, or from it on.
    struct Half {
        int64_t rows = 0;
        int64_t window_pairs = 0;
        int64_t history = 0;               // vectors read from a window ring
        int64_t kept = 0;                  // rows that a window ring keeps
        std::vector<EntryCounts> entries;  // by ratio, as in ratios_

        Half& operator+=(const Half& other);
    };
    struct Compressed {
        int64_t rows = 0;       // rows that entries are made of
        int64_t completed = 0;  // entries
        int64_t carried = 0;    // tokens of an unfinished group that was completed
        int64_t kept = 0;       // rows that the compressor ring keeps
    };
    struct Geometry {
        Half halves[2];
        std::vector<Compressed> compressed;  // by ratio
        int64_t logit_rows = 0;
        bool has_drafts = false;  // the rows leave the draft model its context
    };
    // A block of attention and experts, in a layer or a draft stage.
    struct Block {
        double fp8 = 0;  // multiply-adds of a row
        double experts = 0;
        double bf16 = 0;
        double fp32 = 0;
        double weight_bytes = 0;  // but for the routed experts and the norm in front of the attention
        int64_t num_experts = 0;
        int64_t experts_per_token = 0;
    };

    Geometry geometry(std::span<const SequenceRows> sequences) const;
    void add_rows(Half& half, int64_t begin, int64_t end, int64_t first_seen) const;
    void add_compressed(Geometry& geometry, const SequenceRows& seq) const;
    Block block(int64_t num_experts, int64_t experts_per_token) const;
    void add_block(StepCost& cost, const Block& block, int64_t rows) const;
    void add_attention(StepCost& cost, int64_t pairs) const;
    void add_layer(StepCost& cost, size_t layer, const Geometry& geometry) const;
    void add_entries(StepCost& cost, const LayerShape& layer, const Half& half) const;
    void add_selection(StepCost& cost, const LayerShape& layer, const EntryCounts& counts) const;
    void add_compressor(StepCost& cost, const LayerShape& layer, const Compressed& counts) const;
    void add_engram(StepCost& cost, int64_t rows) const;
    void add_head(StepCost& cost, int64_t rows) const;
    void add_draft_context(StepCost& cost, const Geometry& geometry) const;
    size_t ratio_index(int64_t ratio) const;

    const ModelShape shape_;
    const YocoMode yoco_;
    std::vector<int64_t> ratios_;  // the different ratios > 0
    Block layer_block_;
    Block stage_block_;
    size_t draft_half_ = 0;  // half whose rows give the draft context
};

}  // namespace deepinfer
