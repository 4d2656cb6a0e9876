#include "core/draft_policy.hpp"

#include <algorithm>

namespace deepinfer {

bool DraftPolicy::pays(const DraftValues& values) const {
    return values.with_drafts > values.without_drafts * (is_on_ ? 1.0 - kInertia : 1.0 + kInertia);
}

DraftAction DraftPolicy::decide(const DraftValues& values) {
    ++num_steps_since_probe_;
    const bool ends_probe = is_probing_;
    is_probing_ = false;
    const bool is_wanted = pays(values);
    is_on_ = is_wanted && num_kept_ >= num_lead_steps_;
    const DraftAction action = is_on_ ? DraftAction{} : decide_off(values, ends_probe, is_wanted);
    num_kept_ = action.keeps_context ? num_kept_ + 1 : 0;
    return action;
}

DraftAction DraftPolicy::decide_off(const DraftValues& values, bool ends_probe, bool is_wanted) {
    if (ends_probe) return {.verifies = true, .makes = false, .is_probe = true};
    const bool could_pay = values.at_best > values.without_drafts * (1.0 + kInertia);
    const double interval = std::max(static_cast<double>(kProbeInterval), values.probe_steps / kProbeShare);
    const double num_left = interval - static_cast<double>(num_steps_since_probe_);
    const bool leads = is_wanted || (could_pay && num_left <= static_cast<double>(num_lead_steps_));
    if (!could_pay || num_left > 0.0 || num_kept_ < num_lead_steps_) {
        return {.verifies = false, .makes = false, .keeps_context = leads};
    }
    is_probing_ = true;
    num_steps_since_probe_ = 0;
    return {.verifies = false, .makes = true, .is_probe = true};
}

}  // namespace deepinfer
