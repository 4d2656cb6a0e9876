"""Drafts as Python sees them: arrays, what update refuses, the same texts with every number of drafts, cost curves."""

from __future__ import annotations

import numpy as np
import pytest

from deepinfer._C import Scheduler
from tests.core.fake_worker import Driver, choice_of, expected_output, make_config, prompt_of


def one_running(**changes: int) -> tuple[Scheduler, Driver]:
    driver = Driver(make_config(num_drafts=3, **changes))
    driver.add(0, prompt_of(5), 20)
    return driver.scheduler, driver


def test_arrays():
    scheduler, driver = one_running()
    first = scheduler.schedule()
    assert first.make_drafts is True
    assert first.num_drafts.dtype == np.int32 and first.num_drafts.tolist() == [0]
    scheduler.update(first.step_id, [4], [0, 1], np.array([[5, 6, -1]], dtype=np.int64), None)
    second = scheduler.schedule()
    assert second.num_drafts.tolist() == [2] and not second.num_drafts.flags.writeable
    assert second.token_ids.tolist() == [4, 5, 6] and second.positions.tolist() == [5, 6, 7]
    assert second.cu_seqlens_q.tolist() == [0, 3] and second.output_indices.tolist() == [1]
    update = scheduler.update(second.step_id, [5, 1], [0, 2], [[1, 1, 1]], [[0.5, 2.0, float("nan")]])
    assert update.tokens.tolist() == [5, 1]
    stats = scheduler.stats()
    assert stats.verified_at.tolist() == [1, 1, 0] and stats.accepted_at.tolist() == [1, 0, 0]
    assert (stats.num_verify_steps, stats.num_verify_tokens) == (1, 2)
    assert (stats.num_drafts_verified, stats.num_drafts_accepted) == (2, 1)
    assert (stats.num_undrafted_steps, stats.num_draft_probes) == (0, 0)
    assert not Driver(make_config()).scheduler.schedule().make_drafts


@pytest.mark.parametrize(
    ("draft_ids", "confidences", "error", "message"),
    [
        ([[1, 2]], None, ValueError, r"draft_ids has shape \(1, 2\); expected \[n, 3\]"),
        ([1, 2, 3], None, ValueError, r"draft_ids has shape \(3,\); expected \[n, 3\]"),
        ([[1, 2, 3]] * 2, None, ValueError, "draft_ids has 6 entries"),
        ([[1.5, 2, 3]], None, TypeError, "draft_ids must be a one-dimensional array of integers"),
        ([[1, 2, 3]], [[0.5, 0.5]], ValueError, r"confidences has shape \(1, 2\)"),
        (None, [[0.5, 0.5, 0.5]], ValueError, "draft_ids has 0 entries"),
    ],
)
def test_wrong_drafts_are_refused_and_nothing_changes(draft_ids, confidences, error, message):
    scheduler, driver = one_running()
    plan = scheduler.schedule()
    with pytest.raises(error, match=message):
        scheduler.update(plan.step_id, [4], [0, 1], draft_ids, confidences)
    scheduler.check()
    driver.finish_step(plan, *driver.worker.execute(plan))
    assert len(driver.outputs[0]) == 1


@pytest.mark.parametrize("points", [[(2, 1.0), (2, 2.0)], [(0, 1.0)], [(1, -1.0)], [(1, float("nan"))]])
def test_wrong_cost_curves_are_refused(points):
    with pytest.raises(ValueError, match="cost curve"):
        Scheduler(make_config(num_drafts=3)).set_cost_curves(points, [])


@pytest.mark.parametrize("num_drafts", [0, 1, 2, 3, 5, 7])
@pytest.mark.parametrize("changes", [{}, {"num_blocks": 14, "block_size": 2}, {"max_num_batched_tokens": 8}])
@pytest.mark.parametrize("varlen", [False, True])
def test_texts_do_not_depend_on_drafts(num_drafts, changes, varlen):
    config = make_config(num_drafts=num_drafts, varlen=varlen, **changes)
    driver = Driver(config)
    if varlen:
        driver.scheduler.set_cost_curves([(n, 10 + 0.8 * n) for n in range(1, 65)], [(64, 1.0)])
    specs = [driver.add(i, prompt_of(3 + i, i), 6 + 2 * i, [i % 7], num_forks=i % 3) for i in range(9)]
    plans = driver.run()
    for spec in specs:
        for seq_id in (spec.seq_id, *spec.fork_seq_ids.tolist()):
            assert (driver.outputs[seq_id], driver.reasons[seq_id]) == expected_output(spec, config, choice_of(seq_id))
    stats = driver.scheduler.stats()
    assert stats.num_drafts_verified == stats.verified_at.sum() == sum(plan.num_drafts.sum() for plan in plans)
    assert stats.num_drafts_accepted == stats.accepted_at.sum()
    assert stats.num_verify_tokens >= stats.num_drafts_accepted
    assert (stats.num_drafts_accepted > 0) == (num_drafts > 0)


def test_drafts_that_do_not_pay_are_not_made():
    config = make_config(num_drafts=3, varlen=True)
    driver = Driver(config)
    driver.scheduler.set_cost_curves([(n, float(n)) for n in range(1, 33)], [(8, 1.0)])
    for i in range(8):
        driver.add(i, prompt_of(3), 40)
    plans = driver.run()
    assert not any(plan.make_drafts for plan in plans)
    stats = driver.scheduler.stats()
    assert stats.num_undrafted_steps == stats.num_decode_steps and stats.num_verify_steps == 0


@pytest.mark.parametrize(("ms", "is_drafting"), [((10.0, 1.0, 0.5), True), ((10.0, 1.0, 90.0), False)])
def test_what_steps_took_corrects_the_curves(ms, is_drafting):
    driver = Driver(make_config(num_drafts=3, varlen=True))
    driver.scheduler.set_cost_curves([(32, 10.0)], [(8, 0.5)])
    for i in range(8):
        driver.add(i, prompt_of(3), 40)
    makes_drafts = []
    while driver.scheduler.has_unfinished():
        plan = driver.scheduler.schedule()
        driver.scheduler.observe_step_ms(plan.step_id, *ms)
        driver.finish_step(plan, *driver.worker.execute(plan))
        makes_drafts.append(plan.make_drafts)
    assert makes_drafts[1] is True and any(makes_drafts[8:-1]) is is_drafting


@pytest.mark.parametrize("ms", [(-1.0, 0.0, 0.0), (1.0, float("nan"), 0.0), (1.0, 0.0, float("inf"))])
def test_impossible_times_and_other_steps_are_refused(ms):
    driver = Driver(make_config(num_drafts=3, varlen=True))
    driver.add(1, prompt_of(3), 4)
    plan = driver.scheduler.schedule()
    with pytest.raises(ValueError, match="expected a finite time"):
        driver.scheduler.observe_step_ms(plan.step_id, *ms)
    with pytest.raises(ValueError, match="in flight"):
        driver.scheduler.observe_step_ms(plan.step_id + 1, 1.0, 1.0, 1.0)
    driver.finish_step(plan, *driver.worker.execute(plan))


def test_judged_drafts_are_counted_by_position_and_confidence():
    driver = Driver(make_config(num_drafts=3))
    for i in range(4):
        driver.add(i, prompt_of(3 + i), 30)
    driver.run()
    stats, calibration = driver.scheduler.stats(), driver.scheduler.draft_calibration()
    assert calibration.counts.shape == (3, 160) and not calibration.counts.flags.writeable
    assert 0 < calibration.counts.sum() <= stats.num_drafts_verified
    assert (calibration.accepted.sum(axis=1) >= stats.accepted_at).all()
    assert (calibration.accepted <= calibration.counts).all()
    assert (calibration.counts.sum(axis=1)[1:] <= calibration.accepted.sum(axis=1)[:-1]).all()
    assert (calibration.confidence_sums <= calibration.counts).all()
