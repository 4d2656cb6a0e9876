// Tests of decide_step_kind: the whole truth table.
#include <doctest/doctest.h>

#include <initializer_list>

#include "core/step_policy.hpp"

using deepinfer::decide_step_kind;
using deepinfer::StepKind;

TEST_CASE("step policy: prefill whenever possible, else decode, else nothing") {
    for (const bool decode : {false, true}) {
        CHECK(decide_step_kind({true, false, decode}) == StepKind::kPrefill);
        CHECK(decide_step_kind({false, true, decode}) == StepKind::kPrefill);
        CHECK(decide_step_kind({true, true, decode}) == StepKind::kPrefill);
    }
    CHECK(decide_step_kind({false, false, true}) == StepKind::kDecode);
    CHECK(decide_step_kind({false, false, false}) == StepKind::kEmpty);
}
