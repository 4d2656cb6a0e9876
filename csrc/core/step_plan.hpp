// What the worker is to compute in one step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/cache_copy.hpp"
#include "core/sequence.hpp"
#include "core/step_policy.hpp"

namespace deepinfer {

// S sequences with T tokens in all, packed in plan order. Self-contained: the plan shares nothing with the scheduler.
//
// An exact plan says what the step computes. A linked one (previous_step_id >= 0, decode only) was made while the step
// before it was in flight: of its matched rows (remap >= 0) it knows only bounds. Their context_lens, positions and
// output_indices are as if every draft in flight were accepted, their token_ids are 0, their lookback_ids -1, and the
// split of the drafts' rows is provisional; resolve_plan.hpp makes it exact.
struct StepPlan {
    static constexpr int64_t kExact = -1;

    int64_t step_id = 0;
    int64_t previous_step_id = kExact;  // the step that a linked plan goes on from
    StepKind kind = StepKind::kEmpty;
    int32_t num_lookback = 0;
    bool make_drafts = false;          // the draft model is to run behind the step, for all sequences that get tokens
    bool keeps_draft_context = false;  // the rows leave the draft model the context that later drafts are made from

    std::vector<int64_t> seq_ids;          // [S]
    std::vector<int32_t> cu_seqlens_q{0};  // [S+1] prefix sums of the tokens per sequence
    std::vector<int32_t> context_lens;     // [S] tokens in the caches before this step
    std::vector<int32_t> prompt_lens;      // [S] original prompt length, also in a recompute
    std::vector<int32_t> window_starts;    // [S] first position that windows may look at: rows before are not computed
    std::vector<int32_t> entry_starts;     // [S] first position whose entries are to be written; those before are there
    std::vector<int32_t> consumer_starts;  // [S] first position that has a row in the consumer layers
    std::vector<int32_t> state_slots;      // [S]
    std::vector<int32_t> block_ids;        // block tables, one behind the other
    std::vector<int32_t> cu_blocks{0};     // [S+1] prefix sums of the table lengths
    std::vector<int32_t> token_ids;        // [T]
    std::vector<int32_t> positions;        // [T]
    std::vector<int32_t> lookback_ids;     // [S, num_lookback] tokens before the first, nearest first; -1: none
    std::vector<uint8_t> samples;          // [S] 1 when the sequence's last row yields a token
    std::vector<int32_t> output_indices;   // [S] index among the generated ones of the first token to come
    std::vector<int32_t> num_drafts;       // [S] drafts verified: the last so many rows of a decoding sequence
    std::vector<int32_t> draft_caps;       // [S] most drafts that could be verified, limits and memory considered
    std::vector<int32_t> max_lens;         // [S] most tokens of the text in all, prompt included
    std::vector<int32_t> remap;            // [S] the sequence's place in the previous plan, or -1
    int32_t num_draft_rows = 0;            // rows for drafts in all; what a linked plan's split shares out
    std::vector<float> rate_factors;       // [G] what a predicted rate is worth, by position; for that split
    std::vector<int64_t> fork_seq_ids;     // forks that the step makes, one table behind the other
    std::vector<int32_t> cu_forks{0};      // [S+1] prefix sums of the forks per sequence
    std::vector<int32_t> slot_copies;      // [n, 2] state slots to copy before all else: source, destination
    std::vector<int32_t> block_copies;     // [n, 2] blocks likewise
    std::vector<int64_t> preempted_seq_ids;  // sequences that lost their cache to make this step possible

    int64_t num_seqs() const { return static_cast<int64_t>(seq_ids.size()); }
    int64_t num_tokens() const { return static_cast<int64_t>(token_ids.size()); }
    bool is_linked() const { return previous_step_id != kExact; }
    // Of sequence i: rows of committed tokens (in front of those of drafts), forks, and texts that get a token.
    int64_t num_text_rows(size_t i) const { return cu_seqlens_q[i + 1] - cu_seqlens_q[i] - num_drafts[i]; }
    std::span<const int64_t> forks_of(size_t i) const {
        return std::span(fork_seq_ids)
            .subspan(static_cast<size_t>(cu_forks[i]), static_cast<size_t>(cu_forks[i + 1] - cu_forks[i]));
    }
    int64_t num_samplers(size_t i) const { return samples[i] == 0 ? 0 : 1 + cu_forks[i + 1] - cu_forks[i]; }

    // Adds the next num_rows uncomputed tokens of a sequence, and behind them the first of its drafts.
    void append(const Sequence& seq, int64_t num_rows, int64_t num_verified = 0, int64_t draft_cap = 0);
    // Adds a decoding sequence that is at `place` of the previous plan and gets at most num_new tokens there, each of
    // them and num_verified drafts one row further on.
    void append_linked(const Sequence& seq, int64_t place, int64_t num_new, int64_t num_verified, int64_t draft_cap);
    void append_copy(const CacheCopy& copy);
    // Room for the arrays of so many sequences.
    void reserve(size_t num_seqs);

  private:
    void append_sequence(const Sequence& seq, int64_t draft_cap);
    void append_rows(int64_t start);
};

}  // namespace deepinfer
