// How often drafts were right, by their position and their confidence.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace deepinfer {

// A histogram over the log-odds of the confidence, so fine that a temperature can be fitted to it afterwards. A draft
// counts when it was judged: it was verified, and all drafts before it were accepted.
class DraftCalibration {
  public:
    static constexpr int64_t kBinsPerUnit = 8;
    static constexpr int64_t kMaxLogit = 10;  // what lies beyond counts in the outermost bins
    static constexpr int64_t kNumBins = 2 * kMaxLogit * kBinsPerUnit;

    explicit DraftCalibration(int64_t num_drafts);

    // Drafts of one sequence of which the first num_verified were verified, and the tokens that came instead: the
    // accepted drafts and one more. That one may equal the draft too, where the text ends with it.
    void observe(std::span<const float> confidences, std::span<const int32_t> draft_ids, int64_t num_verified,
                 std::span<const int32_t> tokens);

    int64_t num_drafts() const { return num_drafts_; }
    // Flat [num_drafts, kNumBins].
    const std::vector<int64_t>& counts() const { return counts_; }
    const std::vector<int64_t>& accepted() const { return accepted_; }
    const std::vector<double>& confidence_sums() const { return confidence_sums_; }

  private:
    int64_t num_drafts_;
    std::vector<int64_t> counts_;
    std::vector<int64_t> accepted_;
    std::vector<double> confidence_sums_;
};

}  // namespace deepinfer
