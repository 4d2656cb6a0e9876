#include "core/step_times.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace deepinfer {

namespace {

constexpr double kLeastMs = 1e-6;  // a curve's times are positive, those of a coarse clock may be 0

}  // namespace

void StepTimes::observe(const DecodeStep& step, const CostCurve& step_curve, const CostCurve& draft_curve) {
    ++num_steps_;
    if (const CostPoint* point = step_curve.at(step.num_rows)) {
        auto& window = forwards_[point->size];
        window.median.add(step.ms.forward);
        window.last_step = num_steps_;
        add(step_ratio_, step.ms.forward / point->ms);
    }
    add(step.verifies ? verify_samples_ : plain_samples_, step.num_seqs, step.ms.sample);
    if (!step.drafts) return;
    add(drafts_, step.num_seqs, step.ms.draft);
    if (!draft_curve.empty()) add(draft_ratio_, step.ms.draft / draft_curve.ms(step.num_seqs));
}

double StepTimes::ms_per_row(const CostCurve& step_curve) const {
    std::vector<double> slopes;
    for (const CostPoint& known : known_sizes(kSlopeSamples, &RecentMedian<101>::median)) {
        slopes.push_back((known.ms - step_curve.ms(known.size)) / static_cast<double>(known.size));
    }
    if (slopes.empty()) return 0.0;
    const auto middle = slopes.begin() + static_cast<std::ptrdiff_t>(slopes.size() / 2);
    std::nth_element(slopes.begin(), middle, slopes.end());
    return std::max(*middle, 0.0);
}

CostCurve StepTimes::scaled(const CostCurve& step_guess) const {
    const std::vector<CostPoint> known = known_sizes(kPartSamples, &RecentMedian<101>::lower_quartile);
    const auto ratio = [&](const CostPoint& point) { return point.ms / step_guess.ms(point.size); };
    std::vector<CostPoint> points = step_guess.points();
    auto above = known.begin();  // the first known size that is not below the point's
    for (CostPoint& point : points) {
        while (above != known.end() && above->size < point.size) ++above;
        double factor = scale();
        if (above != known.end()) factor = ratio(*above);
        if (above != known.begin()) {
            const CostPoint& below = *(above - 1);
            const double way = above == known.end() ? 0.0
                                                    : static_cast<double>(point.size - below.size) /
                                                          static_cast<double>(above->size - below.size);
            factor = way * factor + (1.0 - way) * ratio(below);
        }
        point.ms = std::max(point.ms * factor, kLeastMs);
    }
    return CostCurve(std::move(points));
}

std::vector<CostPoint> StepTimes::known_sizes(int64_t num_samples, double (RecentMedian<101>::*number)() const) const {
    std::vector<CostPoint> known;
    for (const auto& [size, window] : forwards_) {
        const bool is_recent = num_steps_ - window.last_step <= max_age_;
        if (is_recent && window.median.size() >= num_samples) known.push_back({size, (window.median.*number)()});
    }
    return known;
}

bool StepTimes::knows_draft_steps() const {
    const auto found = verify_samples_.find(0);
    if (found == verify_samples_.end()) return false;
    const Window<9>& window = found->second;
    return num_steps_ - window.last_step <= max_age_ && window.median.size() >= kDraftSteps;
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

double StepTimes::draft_ms(int64_t num_seqs, const CostCurve& draft_curve, double scale) const {
    if (const auto ms = recent(drafts_, num_seqs)) return *ms;
    if (draft_curve.empty()) return recent(drafts_, 0).value_or(0.0);
    return draft_curve.ms(num_seqs) * recent(draft_ratio_).value_or(scale);
}

void StepTimes::add(Window<9>& window, double value) {
    // What is older must not be mixed with what is measured now.
    if (num_steps_ - window.last_step > max_age_) window.median = {};
    window.median.add(value);
    window.last_step = num_steps_;
}

void StepTimes::add(PartTimes& times, int64_t num_seqs, double ms) {
    add(times[num_seqs], ms);
    add(times[0], ms);
}

std::optional<double> StepTimes::recent(const Window<9>& window) const {
    if (num_steps_ - window.last_step > max_age_ || window.median.size() < kPartSamples) return std::nullopt;
    return window.median.median();
}

std::optional<double> StepTimes::recent(const PartTimes& times, int64_t num_seqs) const {
    const auto found = times.find(num_seqs);
    return found == times.end() ? std::nullopt : recent(found->second);
}

}  // namespace deepinfer
