// The whole draft model (DSpark): context from the target's features, a block of rows, the sequential head.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cpu/context.hpp"
#include "cpu/model/caches.hpp"
#include "cpu/model/draft_features.hpp"
#include "cpu/model/draft_stage.hpp"
#include "cpu/model/model_config.hpp"
#include "cpu/model/row_sampler.hpp"
#include "cpu/model/weights.hpp"
#include "cpu/model/workspace.hpp"

namespace deepinfer::cpu {

// R requests that get drafts.
struct DraftRequests {
    std::span<const int64_t> anchors;         // [R] newest token, not yet run through the target
    std::span<const int64_t> last_positions;  // [R] position of the last token that has been
    std::span<const int64_t> state_slots;     // [R]
    int64_t num_drafts = 0;                   // G rows of a block
};

// Whose blocks they are, for the draw.
struct DraftRows {
    std::span<const int64_t> seq_ids;         // [R]
    std::span<const int64_t> output_indices;  // [R] index of the token that the first draft speaks about
};

class DraftModel {
  public:
    // Everything is the target's and outlives this.
    DraftModel(Context& context, const ModelConfig& config, const ModelWeights& weights, const Caches& caches,
               Workspace& workspace);

    // Of the newest run.
    int64_t num_requests() const { return std::ssize(blocks_.rows.seqs); }
    int64_t num_drafts() const { return blocks_.block_size; }

    // Entries of the draft stages' windows.
    int64_t window_entries() const;
    // Writes the context keys of the target's rows.
    void store_context(StepContext& step, const DraftFeatures& features);

    // Runs all stages over one block per request; keeps hidden states and logits before the Markov head. Throws
    // std::invalid_argument for a token outside the vocabulary or positions that the rotary tables do not cover.
    void run(const DraftRequests& requests);

    // Logits [R, vocab] of block row `row` given the token before it [R], and scores [R] of its confidence before
    // temperature and sigmoid. Valid until the next call of anything.
    std::span<const float> adjust(int64_t row, std::span<const int64_t> previous, std::span<float> scores);

    // The sequential loop: every block row draws from its adjusted logits, then the next one follows; ids and scores
    // are [R, G].
    void draw(RowSampler& sampler, const DraftRows& rows, std::span<int64_t> ids, std::span<float> scores);

  private:
    void place(const DraftRequests& requests);
    void keep_block(StepContext& step, const Streams& streams);
    StepContext block_context();
    const VectorCache& ring(int64_t stage) const;

    Context& context_;
    const ModelConfig& config_;
    const ModelWeights& target_;
    const DraftWeights& weights_;
    const Caches& caches_;
    Workspace& workspace_;
    DraftBlocks blocks_;
    std::vector<int64_t> anchors_;
    std::vector<float> hidden_;  // [R * G, D]
    std::vector<float> base_;    // [R * G, vocab]
    std::vector<float> adjusted_;
    std::vector<int64_t> previous_;
    std::vector<int64_t> indices_;
    std::vector<float> step_scores_;
};

}  // namespace deepinfer::cpu
