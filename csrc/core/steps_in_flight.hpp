// Steps between schedule and update.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/step_plan.hpp"

namespace deepinfer {

// At most two plans, oldest first. Only the newer one can be linked: when the older one is booked, its exact plan takes
// its place. Steps are booked oldest first and discarded newest first. A step in which nothing is computed is in flight
// only if no other is, and gives way to the next one.
class StepsInFlight {
  public:
    using Plan = std::shared_ptr<const StepPlan>;

    bool empty() const { return plans_.empty(); }
    bool has_two() const { return plans_.size() == 2; }
    const StepPlan& oldest() const { return *plans_.front(); }
    const StepPlan& newest() const { return *plans_.back(); }
    // Running numbers of those in which something is computed, oldest first.
    std::vector<int64_t> ids() const;
    // Null when the step is not in flight.
    const StepPlan* find(int64_t step_id) const;

    // Throws std::logic_error unless one more step may be planned: over none, or one decode step.
    void require_room() const;
    // Throw std::invalid_argument unless the step is in flight, is the oldest, is the newest.
    Plan require(int64_t step_id) const;
    Plan require_oldest(int64_t step_id) const;
    Plan require_newest(int64_t step_id) const;

    void drop_empty();
    void push(Plan plan) { plans_.push_back(std::move(plan)); }
    void pop_oldest() { plans_.erase(plans_.begin()); }
    void pop_newest() { plans_.pop_back(); }
    void settle_newest(Plan plan) { plans_.back() = std::move(plan); }

  private:
    std::vector<Plan> plans_;
};

}  // namespace deepinfer
