#include "core/draft_planner.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace deepinfer {

namespace {

// Sets of drafts that the estimate reaches back; few when they come from probes alone.
constexpr double kWindow = 1024.0;
constexpr double kProbeWindow = 128.0;
// With so many sequences their old rates count as much as the mean of all. The spread of many old rates stands for that
// of the newest; those of a few say little.
constexpr double kHalfTrust = 16.0;
// A probe's verification takes at most so many times a step without drafts.
constexpr double kProbeCost = 2.0;
// Steps without drafts that go by the values of one.
constexpr int64_t kReuse = 16;
// A step that leaves context for drafts takes about so much longer, of one that does not. Nobody measures it.
constexpr double kContextShare = 0.04;

}  // namespace

DraftPlanner::DraftPlanner(const SchedulerConfig& config)
    : config_(config), policy_(config.draft_window), estimate_(config.num_drafts) {}

void DraftPlanner::set_cost_curves(CostCurve step_curve, CostCurve draft_curve, bool is_guess) {
    step_guess_ = is_guess ? step_curve : CostCurve();
    step_curve_ = std::move(step_curve);
    draft_curve_ = std::move(draft_curve);
    times_ = StepTimes(is_guess ? StepTimes::kGuessAge : StepTimes::kMaxAge);
    known_ = {};
}

DraftPlanner::Decision DraftPlanner::plan_decode(std::span<Sequence* const> seqs, std::span<const int64_t> caps,
                                                 int64_t max_rows) {
    const auto num_seqs = static_cast<int64_t>(seqs.size());
    const int64_t most_rows = std::min(max_rows, std::reduce(caps.begin(), caps.end(), num_seqs));
    if (config_.num_drafts == 0) return {false, false, false, std::vector<int64_t>(seqs.size(), 0)};
    if (!is_scheduled()) return {true, false, true, split(seqs, caps, most_rows)};
    if (lacks_plain_steps()) return {false, false, true, std::vector<int64_t>(seqs.size(), 0)};
    if (lacks_draft_steps()) return {true, false, true, split(seqs, caps, most_rows)};

    BudgetChoice choice;
    if (!knows_values(num_seqs)) {
        if (!step_guess_.empty()) step_curve_ = times_.scaled(step_guess_);
        estimate_rates(seqs);
        known_ = {values(rates_, max_rows, choice), num_seqs, 0};
    }
    const DraftAction action = policy_.decide(known_.values);
    int64_t num_rows = num_seqs;
    if (action.verifies && action.is_probe) {
        num_rows = probe_rows(num_seqs, most_rows);
    } else if (action.verifies) {
        if (cut_rates(caps)) choice = choose_total_rows(rates_, step_curve_, costs(num_seqs, true), most_rows);
        num_rows = choice.num_rows;
    }
    return {action.makes, action.is_probe, action.keeps_context, split(seqs, caps, num_rows)};
}

// Values of a moment ago are good enough while drafts are off: working them out takes time in every step.
bool DraftPlanner::knows_values(int64_t num_seqs) {
    return !policy_.keeps_context() && known_.num_seqs == num_seqs && ++known_.num_reused < kReuse;
}

bool DraftPlanner::drafts_after_prefill(int64_t num_seqs) const {
    if (config_.num_drafts == 0 || !is_scheduled()) return config_.num_drafts > 0;
    if (lacks_plain_steps() || lacks_draft_steps()) return !lacks_plain_steps();
    CumulativeRates means;
    for (int64_t k = 0; k < config_.num_drafts; ++k) means.push_back(estimate_.mean(k));
    const std::vector<CumulativeRates> rates(static_cast<size_t>(num_seqs), means);
    BudgetChoice choice;
    return policy_.pays(values(rates, config_.max_num_batched_tokens, choice));
}

void DraftPlanner::observe(const SequenceDrafts& drafts, int64_t num_verified, int64_t num_accepted) {
    estimate_.observe(drafts.rates(), num_verified, num_accepted, policy_.is_on() ? kWindow : kProbeWindow);
}

StepCosts DraftPlanner::costs(int64_t num_seqs, bool with_drafts) const {
    const double draft_part = with_drafts ? draft_ms(num_seqs) : 0.0;
    if (step_guess_.empty()) {
        return {.ms_per_row = times_.ms_per_row(step_curve_),
                .fixed_ms = times_.sample_ms(num_seqs, with_drafts) + draft_part};
    }
    // The curve is corrected as a whole. Before its unit is known, no time can be added to it.
    const double sample_part = times_.knows_scale() ? times_.sample_ms(num_seqs, with_drafts) : 0.0;
    return {.ms_per_row = 0.0, .fixed_ms = sample_part + draft_part};
}

double DraftPlanner::draft_ms(int64_t num_seqs) const {
    return times_.draft_ms(num_seqs, draft_curve_, step_guess_.empty() ? 1.0 : times_.scale());
}

double DraftPlanner::step_ms(int64_t num_rows, const StepCosts& costs) const {
    const CostPoint* point = step_curve_.at(num_rows);
    const int64_t size = point == nullptr ? num_rows : point->size;
    return step_curve_.ms(num_rows) + costs.ms_per_row * static_cast<double>(size) + costs.fixed_ms;
}

DraftValues DraftPlanner::values(std::span<const CumulativeRates> rates, int64_t max_rows, BudgetChoice& choice) const {
    const auto num_seqs = static_cast<int64_t>(rates.size());
    const StepCosts drafting = costs(num_seqs, true);
    choice = choose_total_rows(rates, step_curve_, drafting, max_rows);
    DraftValues values{.with_drafts = choice.tokens_per_ms,
                       .without_drafts = static_cast<double>(num_seqs) / step_ms(num_seqs, costs(num_seqs, false))};
    const int64_t most_rows = std::min(max_rows, num_seqs * (1 + config_.num_drafts));
    for (const CostPoint& point : step_curve_.points()) {
        const int64_t num_rows = std::min(point.size, most_rows);
        if (num_rows < num_seqs) continue;
        values.at_best = std::max(values.at_best, static_cast<double>(num_rows) / step_ms(point.size, drafting));
        if (num_rows == most_rows) break;
    }
    values.probe_steps = probe_steps(num_seqs, most_rows);
    return values;
}

// What a probe costs beside the two steps that it takes part in, and its context, in steps without drafts.
double DraftPlanner::probe_steps(int64_t num_seqs, int64_t max_rows) const {
    const StepCosts plain = costs(num_seqs, false);
    const double plain_ms = step_ms(num_seqs, plain);
    const double verify_ms = step_ms(probe_rows(num_seqs, max_rows), plain) - plain_ms;
    const double probe_ms = draft_ms(num_seqs) + verify_ms;
    return probe_ms / plain_ms + kContextShare * static_cast<double>(config_.draft_window);
}

int64_t DraftPlanner::probe_rows(int64_t num_seqs, int64_t max_rows) const {
    const StepCosts plain = costs(num_seqs, false);
    const double most_ms = kProbeCost * step_ms(num_seqs, plain);
    int64_t num_rows = num_seqs + 1;
    for (const CostPoint& point : step_curve_.points()) {
        if (step_ms(point.size, plain) <= most_ms) num_rows = std::max(num_rows, point.size);
    }
    return std::min(num_rows, max_rows);
}

// Fills rates_ with what may be expected of num_drafts drafts of each sequence, or as many as it could use.
void DraftPlanner::estimate_rates(std::span<Sequence* const> seqs) {
    rates_.resize(seqs.size());
    const auto num_seqs = static_cast<double>(seqs.size());
    const auto trust = static_cast<float>(num_seqs / (num_seqs + kHalfTrust));
    for (size_t i = 0; i < seqs.size(); ++i) {
        const CumulativeRates& old_rates = seqs[i]->budget_rates();
        const auto num_drafts = static_cast<size_t>(seqs[i]->num_usable_drafts(config_.num_drafts));
        rates_[i].resize(num_drafts);
        float previous = 1.0F;
        for (size_t k = 0; k < num_drafts; ++k) {
            const auto position = static_cast<int64_t>(k);
            float rate = estimate_.mean(position);
            if (k < old_rates.size()) rate += trust * (estimate_.calibrated(old_rates[k], position) - rate);
            rates_[i][k] = previous = std::min(previous, rate);
        }
    }
}

// Cuts rates_ to the drafts that are there; false: nothing to cut.
bool DraftPlanner::cut_rates(std::span<const int64_t> caps) {
    bool is_cut = false;
    for (size_t i = 0; i < caps.size(); ++i) {
        if (static_cast<int64_t>(rates_[i].size()) <= caps[i]) continue;
        rates_[i].resize(static_cast<size_t>(caps[i]));
        is_cut = true;
    }
    return is_cut;
}

// Level 2, by the newest rates. Of drafts that a step in flight is still to make there are none: those before them
// stand in, and resolve_plan splits again.
std::vector<int64_t> DraftPlanner::split(std::span<Sequence* const> seqs, std::span<const int64_t> caps,
                                         int64_t num_rows) {
    const auto num_seqs = static_cast<int64_t>(seqs.size());
    if (num_rows == num_seqs) return std::vector<int64_t>(seqs.size(), 0);
    if (num_rows == std::reduce(caps.begin(), caps.end(), num_seqs)) return {caps.begin(), caps.end()};
    rates_.resize(seqs.size());
    for (size_t i = 0; i < seqs.size(); ++i) {
        const CumulativeRates& newest = seqs[i]->drafts().rates();
        rates_[i].resize(static_cast<size_t>(caps[i]));
        float previous = 1.0F;
        for (size_t k = 0; k < rates_[i].size(); ++k) {
            const float rate = k < newest.size() ? newest[k] : 0.0F;
            previous = std::min(previous, estimate_.calibrated(rate, static_cast<int64_t>(k)));
            rates_[i][k] = previous;
        }
    }
    std::vector<int64_t> rows = split_rows(rates_, num_rows);
    for (int64_t& num : rows) --num;
    return rows;
}

}  // namespace deepinfer
