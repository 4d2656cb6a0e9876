#include "core/step_update.hpp"

namespace deepinfer {

void StepUpdate::append(int64_t seq_id, std::span<const int32_t> new_tokens, FinishReason reason) {
    seq_ids.push_back(seq_id);
    tokens.insert(tokens.end(), new_tokens.begin(), new_tokens.end());
    cu_tokens.push_back(static_cast<int32_t>(tokens.size()));
    finish_reasons.push_back(reason);
    stop_token_ids.push_back(reason == FinishReason::kStop ? new_tokens.back() : kNoStopToken);
}

}  // namespace deepinfer
