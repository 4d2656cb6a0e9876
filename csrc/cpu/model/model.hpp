// The whole target model on a CPU: one call runs all layers of a step, another gives logits.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cpu/context.hpp"
#include "cpu/model/caches.hpp"
#include "cpu/model/draft_model.hpp"
#include "cpu/model/layer.hpp"
#include "cpu/model/model_config.hpp"
#include "cpu/model/step_input.hpp"
#include "cpu/model/step_rows.hpp"
#include "cpu/model/weights.hpp"
#include "cpu/model/workspace.hpp"

namespace deepinfer::cpu {

// Bit-equal to deepinfer/models/deepseek_v41 over the single ops of this backend: the same operations in the same
// order. Holds no request state. Whoever made the tensors and caches keeps them alive. One call at a time.
class Model {
  public:
    // Throws std::invalid_argument when the tensors or caches do not fit the config.
    Model(Context& context, ModelConfig config, const TensorTable& tensors, Caches caches);

    const ModelConfig& config() const { return config_; }

    // Runs all layers over the step's rows, updating the caches; keeps the hidden states of the wanted rows. Throws
    // std::invalid_argument for a token that the embedding does not have.
    void forward(const StepInput& input);
    int64_t num_hidden() const { return num_hidden_; }

    // Logits float32 [n, vocab] of wanted rows, by their numbers among them; valid until the next call of anything.
    // Throws std::invalid_argument for another number.
    std::span<const float> logits(std::span<const int64_t> wanted);

    // nullptr without drafts.
    DraftModel* draft() { return draft_.get(); }

  private:
    StepContext context_of(const StepRows& rows);
    LayerState initial_state(StepContext& step, const StepInput& input);
    void run_layers(StepContext& step, const StepInput& input);

    Context& context_;
    ModelConfig config_;
    ModelWeights weights_;
    Caches caches_;
    std::unique_ptr<DraftModel> draft_;
    Workspace workspace_;
    StepRows all_rows_;
    StepRows consumer_rows_;
    int64_t num_hidden_ = 0;
    std::vector<float> hidden_;
    std::vector<float> logits_;
};

}  // namespace deepinfer::cpu
