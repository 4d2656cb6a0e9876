// Result of verifying the drafts of one sequence in one step.
#pragma once

#include <cstdint>

namespace deepinfer {

struct VerifyOutcome {
    int64_t num_verified = 0;
    int64_t num_accepted = 0;  // those that became tokens
    int64_t num_tokens = 0;
};

}  // namespace deepinfer
