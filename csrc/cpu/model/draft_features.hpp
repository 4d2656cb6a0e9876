// What the draft model takes in: the target's streams at some layers, of the rows that its windows keep.
#pragma once

#include <cstdint>

#include "cpu/model/step_context.hpp"

namespace deepinfer::cpu {

class DraftFeatures {
  public:
    // Takes memory for the rows of a step. Windows of the draft model have num_entries.
    DraftFeatures(StepContext& step, int64_t num_entries);

    // Adds the mean over the streams [T, S, D] as they enter the attention of target layer number `target`.
    void add(StepContext& step, int64_t target, const float* streams);

    // The rows they belong to; nullptr while there are none.
    const StepRows* rows() const { return rows_; }
    int64_t num_kept() const { return num_kept_; }
    const float* values() const { return values_; }  // [num_kept, num_targets * D]

  private:
    int64_t num_entries_;
    int64_t num_targets_ = 0;
    int64_t num_kept_ = 0;
    float* values_ = nullptr;
    const StepRows* rows_ = nullptr;
};

}  // namespace deepinfer::cpu
