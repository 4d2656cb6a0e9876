#include "cpu/model/row_sampler.hpp"

#include <algorithm>
#include <limits>

#include "cpu/model/random_word.hpp"
#include "cpu/ops/argmax_rows.hpp"

namespace deepinfer::cpu {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr uint32_t kSamplePurpose = 0;  // Purpose.SAMPLE

}  // namespace

bool RowSampler::ends(int64_t seq_id, int64_t token) const {
    const std::vector<int64_t>& stop_ids = rules_.at(seq_id).stop_ids;
    return std::ranges::find(stop_ids, token) != stop_ids.end();
}

void RowSampler::draft(Context& context, LogitsView logits, std::span<const int64_t> seq_ids,
                       std::span<const int64_t> output_indices, std::span<int64_t> tokens) {
    is_finite_.resize(seq_ids.size());
    argmax_rows(context, {.logits = logits.values,
                          .tokens = tokens.data(),
                          .is_finite = is_finite_.data(),
                          .num_rows = std::ssize(seq_ids),
                          .num_ids = num_ids_,
                          .stride = logits.stride});
    for (size_t row = 0; row < seq_ids.size(); ++row)
        if (is_finite_[row] == 0) tokens[row] = 0;
    for (size_t begin = 0; begin < seq_ids.size();) {  // runs of rows that are drawn
        size_t end = begin;
        rows_.clear();
        for (; end < seq_ids.size(); ++end) {
            const SamplingRule& rule = rules_.at(seq_ids[end]);
            if (rule.takes_argmax || is_finite_[end] == 0) break;
            rows_.push_back(rule.filters);
            rows_.back().word =
                random_word({rule.seed, rule.prompt_hash, static_cast<uint32_t>(output_indices[end]), kSamplePurpose});
        }
        if (end > begin)
            draw_rows(context, {.logits = logits.values + static_cast<int64_t>(begin) * logits.stride,
                                .rows = rows_.data(),
                                .tokens = tokens.data() + begin,
                                .num_rows = std::ssize(rows_),
                                .num_ids = num_ids_,
                                .stride = logits.stride});
        begin = end + 1;
    }
}

void RowSampler::sample(Context& context, LogitsView logits, std::span<const int64_t> seq_ids,
                        std::span<const int64_t> output_indices, std::span<int64_t> tokens) {
    const TraceSpan span = context.call("sample");
    draft(context, logits, seq_ids, output_indices, tokens);
    for (size_t row = 0; row < tokens.size(); ++row) {
        const float* begin = logits.values + static_cast<int64_t>(row) * logits.stride;
        const bool is_whole =
            std::all_of(begin + num_ids_, begin + logits.stride, [](float x) { return x < kInfinity; });
        if (is_finite_[row] == 0 || !is_whole) tokens[row] = kNoToken;
    }
}

}  // namespace deepinfer::cpu
