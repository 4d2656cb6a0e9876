#include "core/step_times.hpp"

#include <algorithm>
#include <vector>

namespace deepinfer {

void StepTimes::observe(const DecodeStep& step, const CostCurve& step_curve) {
    ++num_steps_;
    if (const CostPoint* point = step_curve.at(step.num_rows)) {
        auto& window = slopes_[point->size];
        window.median.add((step.ms.forward - point->ms) / static_cast<double>(point->size));
        window.last_step = num_steps_;
    }
    add(step.verifies ? verify_samples_ : plain_samples_, step.num_seqs, step.ms.sample);
    if (step.drafts) add(drafts_, step.num_seqs, step.ms.draft);
}

double StepTimes::ms_per_row() const {
    std::vector<double> medians;
    for (const auto& [size, window] : slopes_) {
        const bool is_recent = num_steps_ - window.last_step <= kMaxAge;
        if (is_recent && window.median.size() >= kSlopeSamples) medians.push_back(window.median.median());
    }
    if (medians.empty()) return 0.0;
    const auto middle = medians.begin() + static_cast<std::ptrdiff_t>(medians.size() / 2);
    std::nth_element(medians.begin(), middle, medians.end());
    return std::max(*middle, 0.0);
}

std::optional<double> StepTimes::sample_ms(int64_t num_seqs, bool verifies) const {
    const PartTimes& first = verifies ? verify_samples_ : plain_samples_;
    const PartTimes& second = verifies ? plain_samples_ : verify_samples_;
    for (const int64_t key : {num_seqs, int64_t{0}}) {
        for (const PartTimes* times : {&first, &second}) {
            if (const auto ms = part_ms(*times, key)) return ms;
        }
    }
    return std::nullopt;
}

std::optional<double> StepTimes::draft_ms(int64_t num_seqs, bool any) const {
    return part_ms(drafts_, any ? 0 : num_seqs);
}

void StepTimes::add(PartTimes& times, int64_t num_seqs, double ms) {
    for (const int64_t key : {num_seqs, int64_t{0}}) {
        Window<9>& window = times[key];
        // What is older must not be mixed with what is measured now.
        if (num_steps_ - window.last_step > kMaxAge) window.median = {};
        window.median.add(ms);
        window.last_step = num_steps_;
    }
}

std::optional<double> StepTimes::part_ms(const PartTimes& times, int64_t num_seqs) const {
    const auto found = times.find(num_seqs);
    if (found == times.end()) return std::nullopt;
    const Window<9>& window = found->second;
    if (num_steps_ - window.last_step > kMaxAge || window.median.size() < kPartSamples) return std::nullopt;
    return window.median.median();
}

}  // namespace deepinfer
