#include "core/draft_policy.hpp"

namespace deepinfer {

bool DraftPolicy::pays(const DraftValues& values) const {
    return values.with_drafts > values.without_drafts * (is_on_ ? 1.0 - kInertia : 1.0 + kInertia);
}

DraftAction DraftPolicy::decide(const DraftValues& values) {
    ++num_steps_since_probe_;
    const bool ends_probe = is_probing_;
    is_probing_ = false;
    is_on_ = pays(values);
    if (is_on_) return {};
    if (ends_probe) return {.verifies = true, .makes = false, .is_probe = true};
    const bool could_pay = values.at_best > values.without_drafts * (1.0 + kInertia);
    if (!could_pay || num_steps_since_probe_ < kProbeInterval) return {.verifies = false, .makes = false};
    is_probing_ = true;
    num_steps_since_probe_ = 0;
    return {.verifies = false, .makes = true, .is_probe = true};
}

}  // namespace deepinfer
