// Makes a linked plan exact, once it is known what came of the step before it.
#pragma once

#include "core/step_outcome.hpp"
#include "core/step_plan.hpp"

namespace deepinfer {

// `previous` is the exact plan of step plan.previous_step_id. A matched row that got n tokens there goes on behind
// them:
//
//   context_lens = previous context + n, output_indices = previous index + n, first token = the last of the n
//   usable drafts = min(ids before the first one below 0, draft_caps, max_lens - context_lens - 2, at least 0)
//
// With n = 0 (an error, or an end before) it repeats the previous row's first token at its position, without drafts.
// Rows that are not matched stay as planned. The matched ones share num_draft_rows less the drafts of those: if all
// usable drafts fit, all are verified, else those that split_rows chooses by rates. The rate of draft k is the product
// of confidences 0..k (from the left, in float32) times rate_factors[k], at most 1 and at most the rate of draft k - 1.
// So the exact plan has at most as many rows as the linked one, and none of them stands at or behind max_lens.
//
// The host's books and whatever corrects lengths on a device have to agree on every number here. Throws
// std::invalid_argument when the plans do not belong together or the outcome has another shape than `previous`.
StepPlan resolve_plan(const StepPlan& plan, const StepPlan& previous, const StepOutcome& outcome);

}  // namespace deepinfer
