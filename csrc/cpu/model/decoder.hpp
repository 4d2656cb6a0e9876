// The end of a decode step as one call: logits, the new tokens, and the drafts behind them.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/context.hpp"
#include "cpu/model/model.hpp"
#include "cpu/model/row_sampler.hpp"
#include "cpu/model/step_input.hpp"

namespace deepinfer::cpu {

// S sequences that all get tokens. Arrays belong to the caller.
struct DecodeInput {
    StepInput step;                           // whatever it says about wanted rows
    const int64_t* seq_ids = nullptr;         // [S]
    const int32_t* num_drafts = nullptr;      // [S] drafts to be judged: a sequence's last so many rows
    const int32_t* output_indices = nullptr;  // [S] index of the first token to come
    int64_t num_new_drafts = 0;               // G drafts to be made behind the step; 0: none
    int64_t max_positions = 0;                // a sequence without room below it for its drafts gets none
};

struct DecodeResult {
    std::vector<std::vector<int64_t>> tokens;  // [S], at least one each; none for a sequence that is not known any more
    std::vector<int64_t> draft_ids;            // [S, G], kNoDraft for none
    std::vector<float> draft_scores;           // [S, G] before temperature and sigmoid, 0 for none
    double sample_ms = 0.0;                    // output matrix, sampling, verification
    double draft_ms = 0.0;                     // draft pass with its sequential head
};

// For sequences whose tokens nothing but the logits decides. Bit-equal to deepinfer/worker/token_chooser.py with
// coupled acceptance and to deepinfer/worker/draft_proposer.py.
class Decoder {
  public:
    static constexpr int64_t kNoDraft = -1;

    // Model and sampler are the caller's and outlive this.
    Decoder(Context& context, Model& model, RowSampler& sampler)
        : context_(context), model_(model), sampler_(sampler) {}

    // Whether nothing but the logits decides the tokens of these sequences. Those that the sampler does not know any
    // more, as they ended while the step was on its way, do not count.
    bool is_plain(const DecodeInput& input) const;

    // Behind the forward pass of the same step, in which the rows that give tokens were wanted and no others. False,
    // and no result, where a row had no token to be drawn. Throws std::invalid_argument behind another forward pass,
    // else as Model and RowSampler do.
    bool sample(const DecodeInput& input, DecodeResult& result);

  private:
    void find_rows(const DecodeInput& input);
    bool choose(const DecodeInput& input, DecodeResult& result);
    bool sample_alive(const DecodeInput& input, int64_t depth);
    void propose(const DecodeInput& input, DecodeResult& result);

    Context& context_;
    Model& model_;
    RowSampler& sampler_;
    // Scratch of a step. Row: of the step; place: its number among the wanted ones.
    std::vector<int64_t> first_rows_, first_places_;
    std::vector<int64_t> alive_;  // sequences whose drafts were right so far
    std::vector<int64_t> places_, seq_ids_, indices_, tokens_;
    std::vector<int64_t> owners_, anchors_, last_positions_, state_slots_, draft_ids_;
    std::vector<float> draft_scores_;
};

}  // namespace deepinfer::cpu
