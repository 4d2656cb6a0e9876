// A worker that computes nothing but keeps real caches of token ids, so that any wrong block, slot or row is noticed.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "core/new_drafts.hpp"
#include "core/scheduler_config.hpp"
#include "core/sequence_spec.hpp"
#include "core/step_plan.hpp"
#include "core/stop_rules.hpp"

namespace deepinfer::testing {

constexpr int32_t kVocabSize = 11;

// Forks are numbered parent + kForkStride, parent + 2 * kForkStride, ...
constexpr int64_t kForkStride = 1'000'000;
inline int64_t choice_of(int64_t seq_id) {
    return seq_id / kForkStride;
}

// The token that follows a text: any function of the choice and every token before it will do.
int32_t next_token(const std::vector<int32_t>& text, int64_t choice);

struct Outcome {
    std::vector<int32_t> tokens;
    FinishReason reason = FinishReason::kRunning;

    bool operator==(const Outcome&) const = default;
};

// What a sequence, or a fork of it, must yield, found without a scheduler.
Outcome expected_outcome(const SequenceSpec& spec, const SchedulerConfig& config, int64_t choice = 0);

class FakeWorker {
  public:
    struct Result {
        std::vector<int32_t> tokens;
        std::vector<int32_t> cu_tokens{0};
        std::vector<int32_t> draft_ids;  // [samplers, num_drafts], partly right, -1 behind those there are
        std::vector<float> confidences;

        NewDrafts drafts(const StepPlan& plan) const {
            return plan.make_drafts ? NewDrafts{draft_ids, confidences} : NewDrafts{};
        }
    };

    explicit FakeWorker(const SchedulerConfig& config);

    // Checks the plan against the budgets, reads each sequence's text back from the caches, and samples. Throws
    // std::runtime_error when the caches do not hold what the plan says.
    Result execute(const StepPlan& plan);

  private:
    void copy(const StepPlan& plan);
    int64_t parent_of(int64_t seq_id) const;
    void sample(const StepPlan& plan, int64_t index, std::vector<int32_t> text, Result& result);
    void draft(std::vector<int32_t> text, int64_t choice, Result& result);
    void write_rows(const StepPlan& plan, int64_t index);
    std::vector<int32_t> read_text(const StepPlan& plan, int64_t index) const;

    struct Entry {
        int64_t seq_id = -1;
        int32_t token_id = -1;
    };
    struct State {
        int64_t seq_id = -1;
        int64_t num_tokens = 0;
    };

    SchedulerConfig config_;
    std::vector<Entry> entries_;          // [num_blocks * block_size]
    std::vector<State> states_;           // [num_state_slots]
    std::map<int64_t, int64_t> parents_;  // of forks
    std::mt19937 random_{7};
};

}  // namespace deepinfer::testing
