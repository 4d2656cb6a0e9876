#include "core/acceptance_estimate.hpp"

#include <algorithm>

namespace deepinfer {

AcceptanceEstimate::AcceptanceEstimate(int64_t num_drafts)
    : positions_(static_cast<size_t>(num_drafts)),
      factors_(static_cast<size_t>(num_drafts), 1.0F),
      means_(static_cast<size_t>(num_drafts), 1.0F) {}

void AcceptanceEstimate::observe(const CumulativeRates& rates, int64_t num_verified, int64_t num_accepted,
                                 double window) {
    const double keep = 1.0 - 1.0 / window;
    for (size_t k = 0; k < rates.size(); ++k) {
        Position& position = positions_[k];
        position.num_sets = std::min(position.num_sets + 1.0, window);
        position.mean_rate += (static_cast<double>(rates[k]) - position.mean_rate) / position.num_sets;
        if (static_cast<int64_t>(k) < num_verified) {
            position.predicted = position.predicted * keep + static_cast<double>(rates[k]);
            position.observed = position.observed * keep + (static_cast<int64_t>(k) < num_accepted ? 1.0 : 0.0);
        }
        refresh(k);
    }
}

float AcceptanceEstimate::calibrated(float rate, int64_t k) const {
    return calibrated_rate(rate, factors_[static_cast<size_t>(k)]);
}

void AcceptanceEstimate::refresh(size_t k) {
    const Position& position = positions_[k];
    factors_[k] = static_cast<float>(position.observed / std::max(position.predicted, 1e-6));
    const float mean = calibrated(static_cast<float>(position.mean_rate), static_cast<int64_t>(k));
    means_[k] = k == 0 ? mean : std::min(mean, means_[k - 1]);
}

}  // namespace deepinfer
