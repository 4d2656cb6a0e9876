// What a decode step gave, before anything is booked.
#pragma once

#include <cstdint>
#include <span>

#include "core/new_drafts.hpp"

namespace deepinfer {

// Sequence j of the step got tokens[cu_tokens[j] .. cu_tokens[j+1]): none after an error, or when it had ended before.
// drafts: a row for each sequence of the step.
struct StepOutcome {
    std::span<const int32_t> tokens;
    std::span<const int32_t> cu_tokens;
    NewDrafts drafts;
};

}  // namespace deepinfer
