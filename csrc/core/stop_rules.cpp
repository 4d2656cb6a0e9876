#include "core/stop_rules.hpp"

#include <algorithm>
#include <utility>

namespace deepinfer {

StopRules::StopRules(int64_t max_len, int64_t min_tokens, std::vector<int32_t> stop_token_ids)
    : max_len_(max_len), min_tokens_(min_tokens), stop_token_ids_(std::move(stop_token_ids)) {
    std::sort(stop_token_ids_.begin(), stop_token_ids_.end());
}

bool StopRules::is_stop_token(int32_t token_id) const {
    return std::binary_search(stop_token_ids_.begin(), stop_token_ids_.end(), token_id);
}

FinishReason StopRules::judge(int32_t token_id, int64_t len, int64_t num_generated) const {
    if (num_generated > min_tokens_ && is_stop_token(token_id)) return FinishReason::kStop;
    return len >= max_len_ ? FinishReason::kLength : FinishReason::kRunning;
}

}  // namespace deepinfer
