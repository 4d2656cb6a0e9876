// When a sequence ends by its token ids or its length.
#pragma once

#include <cstdint>
#include <vector>

namespace deepinfer {

// Values are those of StepUpdate.finish_reasons.
enum class FinishReason : uint8_t { kRunning = 0, kStop = 1, kLength = 2 };

// The rules of one sequence. Stop strings are not known here: they end a sequence through Scheduler::finish.
class StopRules {
  public:
    // max_len: most tokens the sequence may have, prompt included. min_tokens: a stop id counts only as generated token
    // number min_tokens + 1 or later.
    StopRules(int64_t max_len, int64_t min_tokens, std::vector<int32_t> stop_token_ids);

    int64_t max_len() const { return max_len_; }
    bool is_stop_token(int32_t token_id) const;

    // Judges a token that was just appended: len and num_generated include it. A stop id wins over the length limit.
    FinishReason judge(int32_t token_id, int64_t len, int64_t num_generated) const;

  private:
    int64_t max_len_;
    int64_t min_tokens_;
    std::vector<int32_t> stop_token_ids_;  // ascending
};

}  // namespace deepinfer
