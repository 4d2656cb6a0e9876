"""The planner reproduces what one GPU was measured at, and predicts what follows from its own assumptions."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from deepinfer.bench.planner.calibration import Calibration
from deepinfer.bench.planner.decode_plan import DecodePlan
from deepinfer.bench.planner.expert_spread import (
    awake_experts,
    awake_experts_of_random_router,
    peak_to_mean_of_random_router,
)
from deepinfer.bench.planner.expert_work import ExpertWork
from deepinfer.bench.planner.link_model import LinkModel
from deepinfer.bench.planner.plan_options import PlanOptions
from deepinfer.bench.planner.rank_memory import RankMemory
from deepinfer.bench.planner.step_costs import StepCosts
from deepinfer.errors import ConfigError
from tests.bench.planner.bundled import CONFIG, h200, published
from tests.cli.test_main import invoke


@cache
def memory() -> RankMemory:
    return RankMemory.of_model(CONFIG, int(141e9))


@cache
def plan(options: PlanOptions) -> DecodePlan:
    return DecodePlan.make(memory(), h200(), options)


def test_measured_steps_of_one_gpu_are_reproduced_within_a_tenth():
    checks = [check for check in Calibration.fit(published(), h200()).checks if check.step.part != "drafts"]
    for check in checks:
        print(f"{check.step.part} {check.step.num_seqs}: {check.error:+.1%}, not fitted {check.unseen_error:+.1%}")
        assert abs(check.error) <= 0.10
        assert abs(check.unseen_error) <= 0.10  # factors fitted to the other steps
    assert {check.step.num_seqs for check in checks} == {1, 8, 16, 64}


def test_steps_with_drafts_are_foretold_by_factors_that_saw_none():
    checks = [check for check in Calibration.fit(published(), h200()).checks if check.step.part == "drafts"]
    assert len(checks) == 3 and all(abs(check.error) <= 0.15 for check in checks)


def test_factors_are_recovered_from_steps_that_have_them():
    forward = tuple(step for step in h200().steps if step.part == "forward")
    once = Calibration.fit(published(), replace(h200(), steps=forward))
    exact = tuple(replace(check.step, ms=2 * check.model_ms) for check in once.checks)
    twice = Calibration.fit(published(), replace(h200(), steps=exact))
    assert twice.worst_error < 1e-9
    assert twice.dense_factor == pytest.approx(2 * once.dense_factor)
    assert twice.expert_factor == pytest.approx(2 * once.expert_factor)


def test_nothing_is_predicted_from_a_model_that_is_off():
    plain = [step for step in h200().steps if step.part != "drafts"]
    off = (*plain[:-1], replace(plain[-1], ms=1.4 * plain[-1].ms))
    wrong = DecodePlan.make(memory(), replace(h200(), steps=off), PlanOptions(8))
    with pytest.raises(ConfigError, match="took .* ms"):
        wrong.require_accuracy()
    with pytest.raises(ConfigError, match="2 measured steps"):
        DecodePlan.make(memory(), replace(h200(), steps=tuple(plain[:2])), PlanOptions(8)).require_accuracy()
    plan(PlanOptions(8)).require_accuracy()


def test_one_gpu_is_the_sum_of_its_parts():
    options = PlanOptions(1, context_len=2048)
    whole = DecodePlan.make(replace(memory(), usable=1e12), h200(), options)
    costs, factors = StepCosts(published(), h200()), whole.calibration
    point = next(point for point in whole.curves[1] if point.num_seqs == 8)
    work = ExpertWork(awake_experts(384, 8, 6 / 384), 48, 8)
    assert point.exchange_ms == 0 and not point.two_batches
    assert point.dense_ms == pytest.approx((factors.dense_factor * costs.dense_us(8, 2048) + costs.head_us(8)) / 1e3)
    assert point.expert_ms == pytest.approx(factors.expert_factor * 40 * costs.experts_us(work) / 1e3)
    assert point.step_ms == pytest.approx(point.dense_ms + point.expert_ms)
    assert point.tokens_per_s_per_gpu == pytest.approx(8e3 / point.step_ms)


def test_widths_are_divisors_that_fit():
    assert list(plan(PlanOptions(64)).curves) == [4, 8, 16, 32, 64]
    assert list(plan(PlanOptions(12, max_seqs=4)).curves) == [3, 4, 6, 12]
    with pytest.raises(ConfigError, match="2 GPUs do not hold"):
        plan(PlanOptions(2))
    with pytest.raises(ConfigError, match="0.0 GiB usable"):
        DecodePlan.make(replace(memory(), usable=-1.0), h200(), PlanOptions(8))


def test_the_front_is_what_nothing_beats():
    made = plan(PlanOptions(64))
    front = made.pareto()
    for point in (point for curve in made.curves.values() for point in curve):
        beaten_by = [
            best
            for best in front
            if best.tokens_per_s_per_user >= point.tokens_per_s_per_user
            and best.tokens_per_s_per_gpu >= point.tokens_per_s_per_gpu
        ]
        assert beaten_by
    speeds = [(point.tokens_per_s_per_user, point.tokens_per_s_per_gpu) for point in front]
    assert all(fast[0] > slow[0] and fast[1] < slow[1] for fast, slow in zip(speeds, speeds[1:], strict=False))


def step_ms(options: PlanOptions) -> float:
    return DecodePlan.make(memory(), replace(h200(), steps=()), options).curves[64][-1].step_ms


def test_what_costs_more_takes_longer():
    base = PlanOptions(64, max_seqs=64)
    now = step_ms(base)
    assert step_ms(replace(base, imbalance=1.5)) > now
    assert step_ms(replace(base, context_len=100_000)) > now
    assert step_ms(replace(base, num_drafts=5)) > now
    assert step_ms(replace(base, links=LinkModel(outer_gb_per_s=10.0))) > now
    assert step_ms(replace(base, links=LinkModel(domain_size=64))) < now


def test_two_batches_hide_slow_links():
    slow = DecodePlan.make(memory(), h200(), replace(PlanOptions(64), links=LinkModel(outer_gb_per_s=4.0)))
    point = slow.curves[64][-1]
    assert point.two_batches
    assert point.step_ms < point.dense_ms + point.expert_ms + point.exchange_ms
    assert not slow.curves[8][0].two_batches  # a single sequence cannot be halved


def test_the_published_shape_at_the_peak():
    made = plan(PlanOptions(64))
    gain = made.peak(64).tokens_per_s_per_gpu / made.peak(8).tokens_per_s_per_gpu
    print(f"64 against 8 at the peak: {gain:.2f}")
    assert 1.0 < gain < 1.2  # published: about 1.06
    narrow, wide = (made.best_at(width, 20.0) for width in (8, 64))
    assert narrow is not None and wide is not None
    assert wide.tokens_per_s_per_gpu > 1.5 * narrow.tokens_per_s_per_gpu
    assert made.best_at(64, 1e6) is None


def test_the_command(tmp_path: Path):
    plot = tmp_path / "plan.svg"
    common = ["plan-parallel", "--gpus", "8", "--gpu-memory", "141GB"]
    text = invoke(*common, "--plot", str(plot), "--user-speed", "30")
    assert "measured ms" in text and "8 GPUs" in text and "at 30" in text
    assert plot.read_text().count("<polyline") == 3  # 4 and 8 GPUs, and the best of all
    report = json.loads(invoke(*common, "--json", "--floors", "--drafts", "5", "--tokens-per-step", "3.2"))
    assert report["num_gpus"] == 8 and report["checks"] == [] and report["pareto"]
    invoke("plan-parallel", "--gpus", "8", "--gpu-memory", "lots", code=2)
    invoke(*common, "--profile", str(tmp_path / "missing.json"), code=2)
    invoke(*common, "--plot", str(tmp_path / "plan.txt"), code=2)


def test_a_random_router_wakes_fewer_experts_and_fills_ranks_less_evenly():
    slow = PlanOptions(8, links=LinkModel(8, 10.0, 10.0))
    few = replace(slow, max_seqs=24)
    even = plan(replace(slow, may_split=False)).curves[8]
    drawn = plan(replace(few, may_split=False, random_router=True)).curves[8]
    assert any(point.two_batches for point in plan(slow).curves[8])
    assert not any(point.two_batches for point in (*even, *drawn))
    assert all(point.expert_ms != other.expert_ms for point, other in zip(even, drawn, strict=False))
    assert awake_experts_of_random_router(384, 6, 64) < awake_experts(384, 64, 6 / 384)
    peaks = [peak_to_mean_of_random_router(384, 6, 256, ranks) for ranks in (1, 2, 8, 384)]
    assert peaks[0] == 1.0 and peaks == sorted(peaks) and peaks[1] < 1.2
