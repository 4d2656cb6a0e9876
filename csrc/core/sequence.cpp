#include "core/sequence.hpp"

#include <algorithm>
#include <utility>

namespace deepinfer {

Sequence::Sequence(SequenceSpec spec, int64_t max_len, int64_t keep_tokens)
    : id_(spec.seq_id),
      prompt_len_(static_cast<int64_t>(spec.prompt_token_ids.size())),
      consumer_start_(keep_tokens > 0 ? std::max<int64_t>(prompt_len_ - keep_tokens, 0) : 0),
      token_ids_(std::move(spec.prompt_token_ids)),
      rules_(max_len, spec.min_tokens, std::move(spec.stop_token_ids)),
      fork_ids_(std::move(spec.fork_seq_ids)) {}

Sequence::Sequence(const Sequence& parent, int64_t id)
    : id_(id),
      prompt_len_(parent.prompt_len_),
      consumer_start_(parent.consumer_start_),
      token_ids_(parent.token_ids_.begin(), parent.token_ids_.begin() + parent.prompt_len_),
      rules_(parent.rules_),
      replay_(parent.replay_),
      num_computed_(parent.prompt_len_),
      num_once_computed_(parent.prompt_len_) {}

int64_t Sequence::num_recomputed(int64_t num_rows) const {
    return std::clamp<int64_t>(num_once_computed_ - num_computed_, 0, num_rows);
}

void Sequence::admit(int64_t admission) {
    admission_ = admission;
    if (status_ != SequenceStatus::kWaiting) return;
    status_ = SequenceStatus::kPrefilling;
    num_computed_ = replay_.num_skipped;
}

int64_t Sequence::place_in(int64_t step_id) const {
    for (size_t i = 0; i < static_cast<size_t>(num_steps_); ++i) {
        if (steps_[i].step_id == step_id) return steps_[i].place;
    }
    return kNoStep;
}

// The oldest step is over; a fork's first token comes from none of its own.
void Sequence::end_step() {
    if (num_steps_ == 0) return;
    steps_[0] = steps_[1];
    --num_steps_;
}

FinishReason Sequence::commit_rows(int64_t num_rows) {
    end_step();
    num_computed_ += num_rows;
    num_once_computed_ = std::max(num_once_computed_, num_computed_);
    if (num_uncomputed() > 0) return FinishReason::kRunning;
    status_ = SequenceStatus::kFinished;
    return FinishReason::kLength;
}

int64_t Sequence::commit_tokens(std::span<const int32_t> tokens, FinishReason& reason) {
    end_step();
    drafts_.advance();
    reason = FinishReason::kRunning;
    int64_t num_taken = 0;
    while (reason == FinishReason::kRunning && num_taken < static_cast<int64_t>(tokens.size())) {
        token_ids_.push_back(tokens[num_taken++]);
        reason = rules_.judge(token_ids_.back(), len(), num_generated());
    }
    num_computed_ = len() - 1;  // the last token is fed only when another one is wanted
    num_once_computed_ = std::max(num_once_computed_, num_computed_);
    status_ = reason == FinishReason::kRunning ? SequenceStatus::kDecoding : SequenceStatus::kFinished;
    return num_taken;
}

void Sequence::preempt() {
    status_ = SequenceStatus::kWaiting;
    num_computed_ = 0;
    drafts_ = {};
}

}  // namespace deepinfer
