"""The fields of a plan that is linked to nothing, and what `StepPlan.resolve` refuses."""

from __future__ import annotations

import numpy as np
import pytest

from tests.core.fake_worker import Driver, make_config, prompt_of


def test_an_exact_plan_is_linked_to_nothing():
    driver = Driver(make_config(num_drafts=2))
    driver.add(1, prompt_of(3), 9)
    driver.add(2, prompt_of(5), 4)
    for plan in (driver.step(), driver.step()):
        assert plan.previous_step_id == -1
        assert plan.remap.tolist() == [-1, -1]
        assert plan.max_lens.tolist() == [12, 9]
        assert plan.num_draft_rows == plan.num_drafts.sum()
        assert (plan.draft_caps <= 2).all()
        assert plan.rate_factors.dtype == np.float32
        assert plan.rate_factors.shape == (2,)
    with pytest.raises(ValueError, match="step 1 has an exact plan already"):
        plan.resolve(plan, [], [0])


def test_arrays_of_a_wrong_shape_are_refused():
    driver = Driver(make_config(num_drafts=2))
    driver.add(1, prompt_of(3), 9)
    plan = driver.step()
    with pytest.raises(ValueError, match=r"draft_ids has shape \(1, 3\); expected \[n, 2\]"):
        plan.resolve(plan, [1], [0, 1], np.zeros((1, 3), np.int32))
    with pytest.raises(TypeError, match="tokens must be a one-dimensional array of integers"):
        plan.resolve(plan, [0.5], [0, 1])
