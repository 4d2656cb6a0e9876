// The decision whether the next step is a prefill or a decode step.
#pragma once

#include <cstdint>

namespace deepinfer {

enum class StepKind : uint8_t { kEmpty = 0, kPrefill = 1, kDecode = 2 };

// What one replica could do now. Replicas whose steps meet in collectives exchange these votes and decide by all of
// them (deepinfer/engine/step_agreement.py).
struct StepVote {
    bool can_continue_prefill = false;  // a sequence is partly prefilled
    bool can_start_prefill = false;     // the first waiting sequence fits every budget
    bool can_decode = false;            // a sequence is ready for its next token
};

// Prefill whenever there is something to prefill, else decode: a fuller batch makes every later decode step cheaper.
StepKind decide_step_kind(const StepVote& vote);

}  // namespace deepinfer
