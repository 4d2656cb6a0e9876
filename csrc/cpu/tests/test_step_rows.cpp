#include <doctest/doctest.h>

#include <vector>

#include "cpu/model/step_rows.hpp"

using namespace deepinfer::cpu;

namespace {

// Sequence 0: tokens 5 to 8; sequence 1: its first three tokens.
struct TwoSequences {
    std::vector<int32_t> cu_seqlens_q{0, 4, 7}, context_lens{5, 0}, state_slots{3, 1};
    std::vector<int32_t> block_ids{4, 9, 2}, cu_blocks{0, 2, 3}, token_ids{1, 2, 3, 4, 5, 6, 7};
    std::vector<int32_t> window_starts{0, 0}, entry_starts{0, 0}, consumer_starts{7, 0};
    std::vector<int64_t> wanted{3, 6};

    StepInput input() const {
        return {.num_seqs = 2,
                .num_rows = 7,
                .num_wanted = 2,
                .cu_seqlens_q = cu_seqlens_q.data(),
                .context_lens = context_lens.data(),
                .state_slots = state_slots.data(),
                .block_ids = block_ids.data(),
                .cu_blocks = cu_blocks.data(),
                .token_ids = token_ids.data(),
                .window_starts = window_starts.data(),
                .entry_starts = entry_starts.data(),
                .consumer_starts = consumer_starts.data(),
                .wanted_rows = wanted.data()};
    }
};

ModelConfig config_with(YocoMode yoco) {
    ModelConfig config;
    config.window = 3;
    config.yoco = yoco;
    return config;
}

StepRows all_rows(const ModelConfig& config, const StepInput& input) {
    StepRows rows;
    rows.entries.emplace_back().ratio = 1;
    rows.entries.emplace_back().ratio = 2;
    rows.assign(config, input);
    return rows;
}

}  // namespace

TEST_CASE("step rows: windows over history and rows, entries that are completed") {
    const TwoSequences step;
    const StepRows rows = all_rows(config_with(YocoMode::kOff), step.input());
    CHECK(rows.positions == std::vector<int64_t>{5, 6, 7, 8, 0, 1, 2});
    CHECK(rows.row_seq == std::vector<int64_t>{0, 0, 0, 0, 1, 1, 1});
    CHECK(rows.num_keys == 2 + 4 + 3);  // positions 3 and 4, then the rows
    const std::vector<int64_t> windows = {0, 1, 2, 1, 2, 3, 2, 3, 4, 3, 4, 5, -1, -1, 6, -1, 6, 7, 6, 7, 8};
    CHECK(rows.window_index == windows);
    CHECK(rows.seqs[0].blocks[1] == 9);
    CHECK(rows.seqs[1].blocks[0] == 2);
    const EntryRows& pairs = rows.entries_of(2);
    CHECK(pairs.num_visible == std::vector<int64_t>{3, 3, 4, 4, 0, 1, 1});
    CHECK(pairs.new_rows == std::vector<int64_t>{0, 2, 5});
    CHECK(pairs.new_starts == std::vector<int64_t>{4, 6, 0});
    CHECK(rows.entries_of(1).new_rows.size() == 7);
}

TEST_CASE("step rows: compact consumers have the kept rows alone") {
    const TwoSequences step;
    const ModelConfig config = config_with(YocoMode::kCompact);
    const StepRows all = all_rows(config, step.input());
    REQUIRE(cuts_windows(config, step.input()));
    StepRows kept = all_rows(config, step.input());
    kept.assign_consumers(config, step.input(), all);
    CHECK(kept.step_rows == std::vector<int64_t>{2, 3, 4, 5, 6});
    CHECK(kept.positions == std::vector<int64_t>{7, 8, 0, 1, 2});
    CHECK(kept.wanted == std::vector<int64_t>{1, 4});
    CHECK(kept.num_keys == 5);  // nothing before position 7 may be seen
    CHECK(std::vector<int64_t>(kept.window_index.begin(), kept.window_index.begin() + 6) ==
          std::vector<int64_t>{-1, -1, 0, -1, 0, 1});
    CHECK(kept.entries_of(2).new_rows == std::vector<int64_t>{0, 3});
}

TEST_CASE("step rows: masked consumers have every row, with shorter windows") {
    const TwoSequences step;
    const ModelConfig config = config_with(YocoMode::kMask);
    const StepRows all = all_rows(config, step.input());
    StepRows masked = all_rows(config, step.input());
    masked.assign_consumers(config, step.input(), all);
    CHECK(masked.positions == all.positions);
    CHECK(masked.num_keys == 7);
    CHECK(std::vector<int64_t>(masked.window_index.begin(), masked.window_index.begin() + 12) ==
          std::vector<int64_t>{-1, -1, -1, -1, -1, -1, -1, -1, 2, -1, 2, 3});
    CHECK_FALSE(cuts_windows(config_with(YocoMode::kOff), step.input()));
}

TEST_CASE("step rows: behind a saved prefix neither its windows nor its entries") {
    TwoSequences step;
    step.window_starts[0] = 5;
    step.entry_starts[0] = 7;
    const StepRows rows = all_rows(config_with(YocoMode::kOff), step.input());
    CHECK(rows.num_keys == 7);  // no history
    CHECK(std::vector<int64_t>(rows.window_index.begin(), rows.window_index.begin() + 6) ==
          std::vector<int64_t>{-1, -1, 0, -1, 0, 1});
    CHECK(rows.entries_of(1).new_rows == std::vector<int64_t>{2, 3, 4, 5, 6});
    CHECK(rows.entries_of(2).new_rows == std::vector<int64_t>{2, 5});
    CHECK(rows.entries_of(2).num_visible == std::vector<int64_t>{3, 3, 4, 4, 0, 1, 1});
}
