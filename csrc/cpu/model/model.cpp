#include "cpu/model/model.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "cpu/model/draft_features.hpp"
#include "cpu/model/embedding.hpp"
#include "cpu/model/engram.hpp"
#include "cpu/model/head.hpp"

namespace deepinfer::cpu {

Model::Model(Context& context, ModelConfig config, const TensorTable& tensors, Caches caches)
    : context_(context),
      config_(std::move(config)),
      weights_(find_weights(config_, tensors)),
      caches_(std::move(caches)) {
    check_caches(config_, caches_, weights_.draft.has_value());
    std::set<int64_t> ratios;
    for (const LayerRole& role : config_.layers)
        if (role.ratio > 0) ratios.insert(role.ratio);
    for (StepRows* rows : {&all_rows_, &consumer_rows_})
        for (int64_t ratio : ratios) rows->entries.emplace_back().ratio = ratio;
    if (weights_.draft) draft_ = std::make_unique<DraftModel>(context_, config_, weights_, caches_, workspace_);
}

StepContext Model::context_of(const StepRows& rows) {
    return {.cpu = context_, .config = config_, .caches = caches_, .workspace = workspace_, .rows = &rows};
}

void Model::forward(const StepInput& input) {
    const TraceSpan span = context_.call("forward");
    all_rows_.assign(config_, input);
    num_hidden_ = input.num_wanted;
    hidden_.resize(std::max(hidden_.size(), static_cast<size_t>(num_hidden_ * config_.hidden_size)));
    StepContext step = context_of(all_rows_);
    run_layers(step, input);
}

LayerState Model::initial_state(StepContext& step, const StepInput& input) {
    const int64_t num_rows = input.num_rows;
    auto* tokens = workspace_.take<int64_t>(num_rows);
    for (int64_t row = 0; row < num_rows; ++row) {
        check_token(config_, input.token_ids[row]);
        tokens[row] = input.token_ids[row];
    }
    LayerState state{.streams = embed(step, weights_.embedding, tokens),
                     .x = workspace_.take<float>(num_rows * config_.hidden_size),
                     .out = workspace_.take<float>(num_rows * config_.hidden_size)};
    if (config_.num_ngrams > 0) {
        state.ngrams = workspace_.take<int64_t>(num_rows * config_.num_ngrams);
        fill_ngrams(config_, input, weights_.ngram_vocabulary, state.ngrams);
    }
    return state;
}

void Model::run_layers(StepContext& step, const StepInput& input) {
    const Workspace::Scope scope(workspace_);
    const StepRows* consumers = nullptr;
    if (cuts_windows(config_, input)) {
        consumer_rows_.assign_consumers(config_, input, all_rows_);
        consumers = &consumer_rows_;
    }
    LayerState state = initial_state(step, input);
    step.picks = workspace_.take<int64_t>(input.num_rows * config_.index_topk);
    step.candidates = workspace_.take<int64_t>(input.num_rows * config_.candidate_blocks);
    std::optional<DraftFeatures> features;
    if (draft_ != nullptr && input.keeps_draft_context)
        step.features = &features.emplace(step, draft_->window_entries());

    for (int64_t layer = 0; layer < std::ssize(weights_.layers); ++layer)
        run_layer(step, weights_.layers[static_cast<size_t>(layer)], layer, state, consumers);
    if (features && features->rows() != nullptr) draft_->store_context(step, *features);
    final_hidden(step, weights_.norm, state.streams, hidden_.data());
}

std::span<const float> Model::logits(std::span<const int64_t> wanted) {
    const TraceSpan span = context_.call("logits");
    const int64_t dim = config_.hidden_size, count = std::ssize(wanted);
    const Workspace::Scope scope(workspace_);
    float* chosen = workspace_.take<float>(count * dim);
    for (int64_t i = 0; i < count; ++i) {
        const int64_t row = wanted[static_cast<size_t>(i)];
        if (row < 0 || row >= num_hidden_)
            throw std::invalid_argument("logits: no hidden state " + std::to_string(row));
        std::copy_n(hidden_.data() + row * dim, dim, chosen + i * dim);
    }
    const auto size = static_cast<size_t>(count * config_.vocab_size);
    logits_.resize(std::max(logits_.size(), size));
    StepContext step = context_of(all_rows_);
    output_logits(step, weights_.head, chosen, count, logits_.data());
    return {logits_.data(), size};
}

}  // namespace deepinfer::cpu
