#include "core/sequence_drafts.hpp"

#include <utility>

namespace deepinfer {

void SequenceDrafts::advance() {
    ids_.clear();
    confidences_.clear();
    std::swap(old_rates_, rates_);
    rates_.clear();
    outcome_ = {};
}

void SequenceDrafts::give(std::span<const int32_t> token_ids, std::span<const float> confidences) {
    ids_.clear();
    confidences_.clear();
    rates_.clear();
    float rate = 1.0F;
    for (size_t i = 0; i < token_ids.size() && token_ids[i] >= 0; ++i) {
        ids_.push_back(token_ids[i]);
        confidences_.push_back(confidences.empty() ? 1.0F : bounded_confidence(confidences[i]));
        rates_.push_back(rate *= confidences_.back());
    }
}

}  // namespace deepinfer
