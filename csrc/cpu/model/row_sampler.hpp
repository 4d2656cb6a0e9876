// Sampling of rows whose logits nothing changes: greedy, or temperature with top-p, top-k and min_p.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <unordered_map>
#include <vector>

#include "cpu/context.hpp"
#include "cpu/ops/draw_rows.hpp"

namespace deepinfer::cpu {

// What a sequence asks for.
struct SamplingRule {
    bool takes_argmax = true;
    DrawRow filters;  // without a word
    uint64_t seed = 0;
    uint64_t prompt_hash = 0;
    int64_t plain_from = 0;         // from this output index on nothing but the logits decides; kNever: at none
    std::vector<int64_t> stop_ids;  // tokens that end the text
    static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
};

// Logits [n, stride].
struct LogitsView {
    const float* values = nullptr;
    int64_t stride = 0;
};

// Bit-equal to deepinfer/sampling/sampler.py where that changes no logits.
class RowSampler {
  public:
    // num_ids: ids that may be drawn, the first ones of a row.
    explicit RowSampler(int64_t num_ids) : num_ids_(num_ids) {}

    void add(int64_t seq_id, const SamplingRule& rule) { rules_.insert_or_assign(seq_id, rule); }
    void remove(int64_t seq_id) { rules_.erase(seq_id); }
    bool knows(int64_t seq_id) const { return rules_.contains(seq_id); }
    // Throw std::out_of_range for an unknown sequence.
    bool is_plain(int64_t seq_id, int64_t output_index) const { return output_index >= rules_.at(seq_id).plain_from; }
    bool ends(int64_t seq_id, int64_t token) const;

    // One token per row of a sequence's output, or kNoToken for a row with NaN, +inf or without a finite maximum.
    // Throws std::out_of_range for an unknown sequence.
    static constexpr int64_t kNoToken = -1;
    void sample(Context& context, LogitsView logits, std::span<const int64_t> seq_ids,
                std::span<const int64_t> output_indices, std::span<int64_t> tokens);
    // The same over the first ids alone; a row that cannot be drawn gets token 0.
    void draft(Context& context, LogitsView logits, std::span<const int64_t> seq_ids,
               std::span<const int64_t> output_indices, std::span<int64_t> tokens);

  private:
    int64_t num_ids_;
    std::unordered_map<int64_t, SamplingRule> rules_;
    std::vector<uint8_t> is_finite_;
    std::vector<DrawRow> rows_;
};

}  // namespace deepinfer::cpu
