#include "core/step_times.hpp"

#include <algorithm>
#include <vector>

namespace deepinfer {

void StepTimes::observe(const DecodeStep& step, const CostCurve& step_curve, const CostCurve& draft_curve) {
    ++num_steps_;
    if (const CostPoint* point = step_curve.at(step.num_rows)) {
        auto& window = slopes_[point->size];
        window.median.add((step.ms.forward - point->ms) / static_cast<double>(point->size));
        window.last_step = num_steps_;
    }
    add(step.verifies ? verify_samples_ : plain_samples_, step.num_seqs, step.ms.sample);
    if (!step.drafts) return;
    add(drafts_, step.num_seqs, step.ms.draft);
    if (!draft_curve.empty()) add(draft_ratio_, step.ms.draft / draft_curve.ms(step.num_seqs));
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

double StepTimes::sample_ms(int64_t num_seqs, bool verifies) const {
    const PartTimes& first = verifies ? verify_samples_ : plain_samples_;
    const PartTimes& second = verifies ? plain_samples_ : verify_samples_;
    for (const int64_t key : {num_seqs, int64_t{0}}) {
        for (const PartTimes* times : {&first, &second}) {
            if (const auto ms = recent(*times, key)) return *ms;
        }
    }
    return 0.0;
}

double StepTimes::draft_ms(int64_t num_seqs, const CostCurve& draft_curve) const {
    if (const auto ms = recent(drafts_, num_seqs)) return *ms;
    if (draft_curve.empty()) return recent(drafts_, 0).value_or(0.0);
    return draft_curve.ms(num_seqs) * recent(draft_ratio_).value_or(1.0);
}

void StepTimes::add(Window<9>& window, double value) {
    // What is older must not be mixed with what is measured now.
    if (num_steps_ - window.last_step > kMaxAge) window.median = {};
    window.median.add(value);
    window.last_step = num_steps_;
}

void StepTimes::add(PartTimes& times, int64_t num_seqs, double ms) {
    add(times[num_seqs], ms);
    add(times[0], ms);
}

std::optional<double> StepTimes::recent(const Window<9>& window) const {
    if (num_steps_ - window.last_step > kMaxAge || window.median.size() < kPartSamples) return std::nullopt;
    return window.median.median();
}

std::optional<double> StepTimes::recent(const PartTimes& times, int64_t num_seqs) const {
    const auto found = times.find(num_seqs);
    return found == times.end() ? std::nullopt : recent(found->second);
}

}  // namespace deepinfer
