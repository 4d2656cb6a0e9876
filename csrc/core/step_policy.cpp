#include "core/step_policy.hpp"

namespace deepinfer {

StepKind decide_step_kind(const StepVote& vote) {
    if (vote.can_continue_prefill || vote.can_start_prefill) return StepKind::kPrefill;
    return vote.can_decode ? StepKind::kDecode : StepKind::kEmpty;
}

}  // namespace deepinfer
