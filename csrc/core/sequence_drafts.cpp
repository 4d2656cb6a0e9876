#include "core/sequence_drafts.hpp"

#include <utility>

namespace deepinfer {

void SequenceDrafts::advance() {
    ids_.clear();
    std::swap(old_rates_, rates_);
    rates_.clear();
    outcome_ = {};
}

void SequenceDrafts::give(std::span<const int32_t> token_ids, std::span<const float> confidences) {
    ids_.clear();
    rates_.clear();
    float rate = 1.0F;
    for (size_t i = 0; i < token_ids.size() && token_ids[i] >= 0; ++i) {
        ids_.push_back(token_ids[i]);
        const float confidence = confidences.empty() ? 1.0F : confidences[i];
        rate *= confidence > 0.0F ? (confidence < 1.0F ? confidence : 1.0F) : 0.0F;
        rates_.push_back(rate);
    }
}

}  // namespace deepinfer
