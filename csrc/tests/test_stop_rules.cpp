// Tests of StopRules.
#include <doctest/doctest.h>

#include "core/stop_rules.hpp"

using deepinfer::FinishReason;
using deepinfer::StopRules;

TEST_CASE("stop rules: a stop id ends the text, others do not") {
    const StopRules rules(100, 0, {9, 2, 5});
    for (const int id : {2, 5, 9}) CHECK(rules.judge(id, 11, 1) == FinishReason::kStop);
    for (const int id : {0, 3, 10}) CHECK(rules.judge(id, 11, 1) == FinishReason::kRunning);
    CHECK(StopRules(100, 0, {}).judge(2, 11, 1) == FinishReason::kRunning);
}

TEST_CASE("stop rules: a stop id counts only behind min_tokens tokens") {
    const StopRules rules(100, 3, {2});
    CHECK(rules.judge(2, 11, 1) == FinishReason::kRunning);
    CHECK(rules.judge(2, 13, 3) == FinishReason::kRunning);
    CHECK(rules.judge(2, 14, 4) == FinishReason::kStop);
}

TEST_CASE("stop rules: the length limit holds, and a stop id wins over it") {
    const StopRules rules(12, 0, {2});
    CHECK(rules.judge(1, 11, 1) == FinishReason::kRunning);
    CHECK(rules.judge(1, 12, 2) == FinishReason::kLength);
    CHECK(rules.judge(2, 12, 2) == FinishReason::kStop);
    CHECK(StopRules(12, 5, {2}).judge(2, 12, 2) == FinishReason::kLength);
}
