#include "core/steps_in_flight.hpp"

#include <stdexcept>
#include <string>

#include "core/message.hpp"

namespace deepinfer {

std::vector<int64_t> StepsInFlight::ids() const {
    std::vector<int64_t> ids;
    for (const Plan& plan : plans_) {
        if (plan->kind != StepKind::kEmpty) ids.push_back(plan->step_id);
    }
    return ids;
}

const StepPlan* StepsInFlight::find(int64_t step_id) const {
    for (const Plan& plan : plans_) {
        if (plan->step_id == step_id) return plan.get();
    }
    return nullptr;
}

void StepsInFlight::require_room() const {
    if (has_two()) {
        throw std::logic_error(message("steps ", oldest().step_id, " and ", newest().step_id,
                                       " are in flight: update the first one, or discard the second"));
    }
    if (!empty() && oldest().kind == StepKind::kPrefill) {
        throw std::logic_error(message("prefill step ", oldest().step_id, " is in flight: update or discard it first"));
    }
}

StepsInFlight::Plan StepsInFlight::require(int64_t step_id) const {
    for (const Plan& plan : plans_) {
        if (plan->step_id == step_id) return plan;
    }
    const std::string expected = empty()     ? std::string("no step is")
                                 : has_two() ? message("steps ", oldest().step_id, " and ", newest().step_id, " are")
                                             : message("step ", oldest().step_id, " is");
    throw std::invalid_argument(message("step_id is ", step_id, ", but ", expected, " in flight"));
}

StepsInFlight::Plan StepsInFlight::require_oldest(int64_t step_id) const {
    Plan plan = require(step_id);
    if (plan == plans_.front()) return plan;
    throw std::invalid_argument(
        message("step_id is ", step_id, ", but step ", oldest().step_id, " is to be booked first"));
}

StepsInFlight::Plan StepsInFlight::require_newest(int64_t step_id) const {
    Plan plan = require(step_id);
    if (plan == plans_.back()) return plan;
    throw std::invalid_argument(
        message("step_id is ", step_id, ", but step ", newest().step_id, " is to be discarded first"));
}

void StepsInFlight::drop_empty() {
    if (!empty() && oldest().kind == StepKind::kEmpty) plans_.clear();
}

}  // namespace deepinfer
