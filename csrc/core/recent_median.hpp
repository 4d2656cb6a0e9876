// Median of the newest few numbers: a slow step now and then does not move it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace deepinfer {

template <size_t kCapacity>
class RecentMedian {
  public:
    void add(double value) { values_[static_cast<size_t>(num_added_++) % kCapacity] = value; }
    int64_t size() const { return std::min<int64_t>(num_added_, kCapacity); }
    // Of an even number the higher of the middle two; 0 when there are none.
    double median() const { return ranked(size() / 2); }
    // As high as a quarter of them; 0 when there are none.
    double lower_quartile() const { return ranked(size() / 4); }

  private:
    double ranked(int64_t rank) const {
        if (num_added_ == 0) return 0.0;
        std::array<double, kCapacity> sorted = values_;
        const auto found = sorted.begin() + rank;
        std::nth_element(sorted.begin(), found, sorted.begin() + size());
        return *found;
    }

    std::array<double, kCapacity> values_{};
    int64_t num_added_ = 0;
};

}  // namespace deepinfer
