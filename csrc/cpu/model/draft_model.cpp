#include "cpu/model/draft_model.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "cpu/model/embedding.hpp"
#include "cpu/model/head.hpp"
#include "cpu/model/linear.hpp"
#include "cpu/model/projections.hpp"
#include "cpu/model/window.hpp"
#include "cpu/ops/embed_rows.hpp"
#include "cpu/ops/hc_read.hpp"
#include "cpu/ops/rms_norm.hpp"

namespace deepinfer::cpu {

DraftModel::DraftModel(Context& context, const ModelConfig& config, const ModelWeights& weights, const Caches& caches,
                       Workspace& workspace)
    : context_(context),
      config_(config),
      target_(weights),
      weights_(*weights.draft),
      caches_(caches),
      workspace_(workspace) {}

const VectorCache& DraftModel::ring(int64_t stage) const {
    return caches_.window[config_.layers.size() + static_cast<size_t>(stage)];
}

int64_t DraftModel::window_entries() const {
    return ring(0).num_entries;
}

void DraftModel::store_context(StepContext& step, const DraftFeatures& features) {
    const int64_t num_kept = features.num_kept(), dim = config_.hidden_size;
    const Workspace::Scope scope(workspace_);
    float* x = workspace_.take<float>(num_kept * dim);
    linear(step, weights_.main_proj, {.x = features.values(), .out = x, .num_rows = num_kept});
    rms_norm(context_, {.x = x,
                        .weight = weights_.main_norm,
                        .out = x,
                        .num_rows = num_kept,
                        .dim = dim,
                        .eps = config_.norm_eps,
                        .rounds_bf16 = config_.rounds_bf16});
    auto* positions = workspace_.take<int64_t>(num_kept);
    const std::vector<SequenceRows>& seqs = features.rows()->seqs;
    int64_t next = 0;
    for (const SequenceRows& seq : seqs)
        for (int64_t row = first_kept_row(seq, window_entries()); row < seq.end_row(); ++row)
            positions[next++] = seq.position_of(row);

    float* keys = workspace_.take<float>(num_kept * config_.head_dim);
    for (int64_t stage = 0; stage < std::ssize(weights_.stages); ++stage) {
        const VectorCache& cache = ring(stage);
        const int64_t bytes = cache.format.num_bytes();
        const Workspace::Scope inner(workspace_);
        auto* encoded = workspace_.take<uint8_t>(num_kept * bytes);
        const Projections layer{weights_.stages[static_cast<size_t>(stage)].projections, target_.window_rope};
        key_value(step, layer, x, {positions, num_kept}, keys);
        encode(step, cache.format, keys, num_kept, encoded);
        for (const SequenceRows& seq : seqs) {
            store_in_ring(cache, seq, encoded);
            encoded += (seq.end_row() - first_kept_row(seq, window_entries())) * bytes;
        }
    }
}

void DraftModel::place(const DraftRequests& requests) {
    StepRows& rows = blocks_.rows;
    blocks_.block_size = requests.num_drafts;
    blocks_.window = config_.window;
    rows.seqs.clear();
    rows.positions.clear();
    rows.window_index.clear();
    for (size_t r = 0; r < requests.anchors.size(); ++r) {
        const int64_t start = requests.last_positions[r] + 1,
                      first_key = static_cast<int64_t>(r) * blocks_.keys_per_request();
        check_token(config_, requests.anchors[r]);
        if (start < 1 || start + requests.num_drafts > config_.max_positions)
            throw std::invalid_argument("drafts at position " + std::to_string(start) + " do not fit into " +
                                        std::to_string(config_.max_positions));
        rows.seqs.push_back({.first_row = rows.num_rows(),
                             .num_rows = requests.num_drafts,
                             .start = start,
                             .state_slot = requests.state_slots[r]});
        for (int64_t row = 0; row < requests.num_drafts; ++row) {
            rows.positions.push_back(start + row);
            for (int64_t place = 0; place < blocks_.keys_per_request(); ++place) {
                const bool is_absent = start - config_.window + place < 0 && place < config_.window;
                rows.window_index.push_back(is_absent ? kNone : first_key + place);
            }
        }
    }
}

StepContext DraftModel::block_context() {
    return {.cpu = context_, .config = config_, .caches = caches_, .workspace = workspace_, .rows = &blocks_.rows};
}

void DraftModel::run(const DraftRequests& requests) {
    const TraceSpan span = context_.call("run_drafts");
    place(requests);
    anchors_.assign(requests.anchors.begin(), requests.anchors.end());
    const int64_t num_rows = blocks_.rows.num_rows(), dim = config_.hidden_size;
    StepContext step = block_context();
    const Workspace::Scope scope(workspace_);
    auto* tokens = workspace_.take<int64_t>(num_rows);
    std::fill_n(tokens, num_rows, config_.noise_token_id);
    for (size_t r = 0; r < requests.anchors.size(); ++r)
        tokens[static_cast<int64_t>(r) * requests.num_drafts] = requests.anchors[r];
    LayerState state{.streams = embed(step, target_.embedding, tokens),
                     .x = workspace_.take<float>(num_rows * dim),
                     .out = workspace_.take<float>(num_rows * dim)};
    for (int64_t stage = 0; stage < std::ssize(weights_.stages); ++stage)
        run_draft_stage(step, weights_.stages[static_cast<size_t>(stage)], target_.window_rope, ring(stage), blocks_,
                        state);
    keep_block(step, state.streams);
}

void DraftModel::keep_block(StepContext& step, const Streams& streams) {
    const int64_t num_rows = step.num_rows(), dim = config_.hidden_size;
    hidden_.resize(std::max(hidden_.size(), static_cast<size_t>(num_rows * dim)));
    base_.resize(std::max(base_.size(), static_cast<size_t>(num_rows * config_.vocab_size)));
    hc_read(context_, {.streams = streams.values,
                       .pre = streams.pre,
                       .out = hidden_.data(),
                       .num_rows = num_rows,
                       .num_streams = config_.num_streams,
                       .dim = dim,
                       .rounds_bf16 = config_.rounds_bf16});
    const Workspace::Scope scope(workspace_);
    float* normed = workspace_.take<float>(num_rows * dim);
    rms_norm(context_, {.x = hidden_.data(),
                        .weight = weights_.norm,
                        .out = normed,
                        .num_rows = num_rows,
                        .dim = dim,
                        .eps = config_.norm_eps,
                        .rounds_bf16 = config_.rounds_bf16});
    output_logits(step, target_.head, normed, num_rows, base_.data());
}

std::span<const float> DraftModel::adjust(int64_t row, std::span<const int64_t> previous, std::span<float> scores) {
    const TraceSpan span = context_.call("adjust_drafts");
    const int64_t num_requests = std::ssize(blocks_.rows.seqs), num_drafts = blocks_.block_size;
    const int64_t dim = config_.hidden_size, rank = config_.markov_rank, vocab = config_.vocab_size;
    if (std::ssize(previous) != num_requests || std::ssize(scores) != num_requests || row < 0 || row >= num_drafts)
        throw std::invalid_argument("adjust: row " + std::to_string(row) + " of " + std::to_string(num_requests) +
                                    " blocks of " + std::to_string(num_drafts));
    for (int64_t token : previous) check_token(config_, token);
    StepContext step = block_context();
    const Workspace::Scope scope(workspace_);
    float* markov = workspace_.take<float>(num_requests * rank);
    embed_rows(context_, {.table = weights_.markov_embedding.data,
                          .tokens = previous.data(),
                          .out = markov,
                          .num_rows = num_requests,
                          .dim = rank,
                          .table_is_bf16 = weights_.markov_embedding.format == WeightFormat::kBf16});
    const auto size = static_cast<size_t>(num_requests * vocab);
    adjusted_.resize(std::max(adjusted_.size(), size));
    output_logits(step, weights_.markov_head, markov, num_requests, adjusted_.data());

    float* joined = workspace_.take<float>(num_requests * (dim + rank));
    for (int64_t r = 0; r < num_requests; ++r) {
        const int64_t block_row = r * num_drafts + row;
        const float* base = base_.data() + block_row * vocab;
        float* logits = adjusted_.data() + r * vocab;
        for (int64_t i = 0; i < vocab; ++i) logits[i] = base[i] + logits[i];
        std::copy_n(hidden_.data() + block_row * dim, dim, joined + r * (dim + rank));
        std::copy_n(markov + r * rank, rank, joined + r * (dim + rank) + dim);
    }
    output_logits(step, weights_.confidence, joined, num_requests, scores.data());
    return {adjusted_.data(), size};
}

void DraftModel::draw(RowSampler& sampler, const DraftRows& rows, std::span<int64_t> ids, std::span<float> scores) {
    const TraceSpan span = context_.call("draw_drafts");
    const auto num_requests = blocks_.rows.seqs.size(), num_drafts = static_cast<size_t>(blocks_.block_size);
    std::vector<int64_t>& previous = previous_;
    previous = anchors_;
    step_scores_.resize(num_requests);
    indices_.assign(rows.output_indices.begin(), rows.output_indices.end());
    for (size_t k = 0; k < num_drafts; ++k) {
        const std::span<const float> logits = adjust(static_cast<int64_t>(k), previous, step_scores_);
        sampler.draft(context_, {logits.data(), config_.vocab_size}, rows.seq_ids, indices_, previous);
        for (size_t r = 0; r < num_requests; ++r) {
            ids[r * num_drafts + k] = previous[r];
            scores[r * num_drafts + k] = step_scores_[r];
            ++indices_[r];
        }
    }
}

}  // namespace deepinfer::cpu
