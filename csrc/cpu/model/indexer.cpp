#include "cpu/model/indexer.hpp"

#include <algorithm>

#include "cpu/model/linear.hpp"
#include "cpu/ops/apply_rope.hpp"
#include "cpu/ops/index_scores.hpp"
#include "cpu/ops/restrict_to_blocks.hpp"
#include "cpu/ops/round_vectors.hpp"
#include "cpu/ops/select_blocks.hpp"
#include "cpu/ops/select_topk.hpp"
#include "cpu/range.hpp"

namespace deepinfer::cpu {

namespace {

class Indexer {
  public:
    Indexer(StepContext& step, const LayerWeights& weights, int64_t layer_id, const float* x, const float* q_lora)
        : step_(step),
          weights_(weights),
          role_(step.config.layers[static_cast<size_t>(layer_id)]),
          cache_(step.caches.index[static_cast<size_t>(role_.kv_source)]),
          num_visible_(step.rows->entries_of(role_.ratio).num_visible),
          x_(x),
          q_lora_(q_lora) {}

    void run() {
        take_all_visible();
        const Workspace::Scope scope(step_.workspace);
        views_ = entry_views(step_, cache_);
        const int64_t num_rows = step_.num_rows();
        for (int64_t begin = 0; begin < num_rows;) {
            int64_t end = begin;
            while (end < num_rows && is_scored(end)) ++end;
            for (; begin < end; begin += score_chunk({begin, end})) continue;
            begin = end + 1;
        }
    }

  private:
    int64_t visible(int64_t row) const { return num_visible_[static_cast<size_t>(row)]; }
    bool is_scored(int64_t row) const { return visible(row) > step_.config.index_topk; }

    void take_all_visible() {
        const int64_t topk = step_.config.index_topk;
        for (int64_t row = 0; row < step_.num_rows(); ++row)
            for (int64_t i = 0; i < topk; ++i) step_.picks[row * topk + i] = i < visible(row) ? i : kNone;
    }

    // Scores and picks for the first rows of a range, as many as fit into a chunk; gives their number.
    int64_t score_chunk(Range rows) {
        const ModelConfig& config = step_.config;
        const int64_t limit = std::min(rows.size(), rows_per_chunk(config.index_heads * config.index_dim));
        int64_t count = 0, num_entries = 0;
        for (; count < limit; ++count) {  // the longest row decides how wide the scores are
            const int64_t widest = std::max(num_entries, visible(rows.begin + count));
            if (count > 0 && (count + 1) * widest > kChunkFloats) break;
            num_entries = widest;
        }
        rows.end = rows.begin + count;
        const Workspace::Scope scope(step_.workspace);
        float* scores = step_.workspace.take<float>(count * num_entries);
        score(rows, num_entries, scores);
        select(rows, num_entries, scores);
        return count;
    }

    void score(Range rows, int64_t num_entries, float* scores) {
        const ModelConfig& config = step_.config;
        const Workspace::Scope scope(step_.workspace);
        float* q = step_.workspace.take<float>(rows.size() * config.index_heads * config.index_dim);
        float* head_weights = step_.workspace.take<float>(rows.size() * config.index_heads);
        make_queries(rows, q);
        linear(step_, weights_.indexer.weights_proj,
               {.x = x_ + rows.begin * config.hidden_size, .out = head_weights, .num_rows = rows.size()});
        index_scores(step_.cpu, {.q = q,
                                 .head_weights = head_weights,
                                 .views = views_,
                                 .row_view = step_.rows->row_seq.data() + rows.begin,
                                 .num_visible = num_visible_.data() + rows.begin,
                                 .out = scores,
                                 .key_rounding = cache_.format.stored_as(),
                                 .num_rows = rows.size(),
                                 .num_heads = config.index_heads,
                                 .dim = config.index_dim,
                                 .num_entries = num_entries,
                                 .scale = config.index_scale,
                                 .rounds_bf16 = config.rounds_bf16});
    }

    // Rotated, rounded query heads [n, Hi, di].
    void make_queries(Range rows, float* q) {
        const ModelConfig& config = step_.config;
        linear(step_, weights_.indexer.wq_b,
               {.x = q_lora_ + rows.begin * config.q_lora_rank, .out = q, .num_rows = rows.size()});
        apply_rope(step_.cpu, {.x = q,
                               .cos = weights_.rope.cos,
                               .sin = weights_.rope.sin,
                               .positions = step_.rows->positions.data() + rows.begin,
                               .out = q,
                               .num_rows = rows.size(),
                               .num_heads = config.index_heads,
                               .dim = config.index_dim,
                               .rotated = config.rope_dim,
                               .rounds_bf16 = config.rounds_bf16});
        if (!config.quantizes) return;
        round_vectors(step_.cpu, {.x = q,
                                  .x_stride = config.index_dim,
                                  .out = q,
                                  .out_stride = config.index_dim,
                                  .num_rows = rows.size() * config.index_heads,
                                  .dim = config.index_dim,
                                  .rounding = VectorRounding::kFp4Group32});
    }

    void select(Range rows, int64_t num_entries, float* scores) {
        const ModelConfig& config = step_.config;
        int64_t* candidates = step_.candidates + rows.begin * config.candidate_blocks;
        if (role_.is_candidate_source)
            select_blocks(step_.cpu, {.scores = scores,
                                      .num_visible = num_visible_.data() + rows.begin,
                                      .blocks = candidates,
                                      .num_rows = rows.size(),
                                      .num_entries = num_entries,
                                      .block_size = config.candidate_block_size,
                                      .num_blocks = config.candidate_blocks});
        if (role_.uses_candidates)
            restrict_to_blocks(step_.cpu, {.scores = scores,
                                           .blocks = candidates,
                                           .out = scores,
                                           .num_rows = rows.size(),
                                           .num_entries = num_entries,
                                           .num_blocks = config.candidate_blocks,
                                           .block_size = config.candidate_block_size});
        select_topk(step_.cpu, {.scores = scores,
                                .picks = step_.picks + rows.begin * config.index_topk,
                                .num_rows = rows.size(),
                                .num_entries = num_entries,
                                .k = config.index_topk});
    }

    StepContext& step_;
    const LayerWeights& weights_;
    const LayerRole& role_;
    const VectorCache& cache_;
    const std::vector<int64_t>& num_visible_;
    const float* x_;
    const float* q_lora_;
    const EntryView* views_ = nullptr;
};

}  // namespace

void pick_entries(StepContext& step, const LayerWeights& weights, int64_t layer_id, const float* x,
                  const float* q_lora) {
    Indexer(step, weights, layer_id, x, q_lora).run();
}

}  // namespace deepinfer::cpu
