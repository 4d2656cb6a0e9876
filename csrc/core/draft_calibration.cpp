#include "core/draft_calibration.hpp"

#include <algorithm>
#include <cmath>

namespace deepinfer {

namespace {

int64_t bin_of(double confidence) {
    const double inside = std::clamp(confidence, 1e-9, 1.0 - 1e-9);
    const double logit = std::log(inside / (1.0 - inside));
    const double place = (logit + DraftCalibration::kMaxLogit) * DraftCalibration::kBinsPerUnit;
    return std::clamp<int64_t>(static_cast<int64_t>(std::floor(place)), 0, DraftCalibration::kNumBins - 1);
}

}  // namespace

DraftCalibration::DraftCalibration(int64_t num_drafts)
    : num_drafts_(num_drafts),
      counts_(static_cast<size_t>(num_drafts * kNumBins)),
      accepted_(counts_.size()),
      confidence_sums_(counts_.size()) {}

void DraftCalibration::observe(std::span<const float> confidences, std::span<const int32_t> draft_ids,
                               int64_t num_verified, std::span<const int32_t> tokens) {
    const size_t num_judged = std::min({static_cast<size_t>(num_verified), confidences.size(), tokens.size()});
    for (size_t k = 0; k < num_judged; ++k) {
        const auto confidence = static_cast<double>(confidences[k]);
        const size_t cell = k * kNumBins + static_cast<size_t>(bin_of(confidence));
        ++counts_[cell];
        accepted_[cell] += tokens[k] == draft_ids[k];
        confidence_sums_[cell] += confidence;
    }
}

}  // namespace deepinfer
