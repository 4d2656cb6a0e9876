// What one finished step changed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/stop_rules.hpp"

namespace deepinfer {

// Lists, in plan order, only the sequences that got tokens or ended; forks stand behind the one they came from.
struct StepUpdate {
    static constexpr int32_t kNoStopToken = -1;

    std::vector<int64_t> seq_ids;              // [S']
    std::vector<int32_t> cu_tokens{0};         // [S'+1] prefix sums of the tokens per sequence
    std::vector<int32_t> tokens;               // accepted tokens, a stop token included
    std::vector<FinishReason> finish_reasons;  // [S']
    std::vector<int32_t> stop_token_ids;       // [S'] the id that ended the sequence, or kNoStopToken

    // For reason kStop the last new token is the stop token.
    void append(int64_t seq_id, std::span<const int32_t> new_tokens, FinishReason reason);
};

}  // namespace deepinfer
