"""The parts of the model of costs: curves of ops, experts, their spread, links, memory."""

from __future__ import annotations

import numpy as np
import pytest

from deepinfer.bench.planner.expert_cost import ExpertCost
from deepinfer.bench.planner.expert_spread import (
    awake_experts,
    awake_experts_of_random_router,
    chance_peak_to_mean,
)
from deepinfer.bench.planner.expert_work import ExpertWork
from deepinfer.bench.planner.link_model import LinkModel
from deepinfer.bench.planner.op_curve import Growth, OpCurve
from deepinfer.bench.planner.op_point import OpPoint
from deepinfer.bench.planner.rank_memory import RankMemory
from deepinfer.bench.planner.step_costs import StepCosts
from tests.bench.planner.bundled import CONFIG, h200, published

# Published latencies of DeepEP's low-latency kernels: ranks -> dispatch, combine; microseconds.
DEEP_EP = {16: (118, 195), 32: (155, 273), 64: (173, 314), 128: (192, 369), 256: (194, 360)}


def test_a_curve_goes_through_its_points_and_on():
    curve = OpCurve([(1, 2.0), (64, 65.0), (128, 193.0)], Growth.ROWS)
    assert [curve.us(rows) for rows in (0, 1, 2, 64, 96, 128, 192)] == [0, 2, 3, 65, 129, 193, 321]
    assert OpCurve([(4, 7.0)], Growth.ROWS).us(1000) == 7.0


def test_a_product_takes_its_tile_forms_time_from_eight_rows_on():
    curve = OpCurve([(1, 2.0), (64, 23.0), (4096, 4055.0)], Growth.WEIGHTS)
    assert [curve.us(rows) for rows in (1, 2, 8, 40, 64, 65)] == [2, 5, 23, 23, 23, 24]
    measured = OpCurve([(1, 2.0), (8, 4.0), (16, 20.0), (64, 23.0)], Growth.WEIGHTS)
    assert [measured.us(rows) for rows in (8, 16, 40)] == [4, 20, 21.5]  # what was measured wins


def test_expert_costs_are_recovered_and_never_negative():
    true = (12.0, 7e-7, 8e-9)
    points = [(148e6, 2.5e8), (4.8e9, 1.6e10), (7.3e9, 1e12)]
    samples = [OpPoint(1, true[0] + b * true[1] + m * true[2], b, m) for b, m in points]
    cost = ExpertCost(samples)
    assert cost.us(2e9, 5e10) == pytest.approx(true[0] + 2e9 * true[1] + 5e10 * true[2])
    assert cost.us(0, 0) == 0
    falling = ExpertCost([OpPoint(1, 10.0, 1e9, 1e9), OpPoint(2, 5.0, 2e9, 2e9)])
    assert falling.us(4e9, 4e9) > 0


def test_experts_that_an_even_router_wakes():
    rng = np.random.default_rng(0)
    drawn = [len(np.unique(rng.permuted(np.tile(np.arange(48), (16, 1)), axis=1)[:, :3])) for _ in range(400)]
    assert awake_experts(48, 16, 3 / 48) == pytest.approx(np.mean(drawn), rel=0.02)
    assert awake_experts(48, 0, 3 / 48) == 0 and awake_experts(1, 5, 2.0) == 1


def test_a_random_router_wakes_fewer():
    counts = [awake_experts_of_random_router(384, 6, rows) for rows in (1, 8, 64)]
    assert counts[0] == 6 and counts == sorted(counts)
    assert counts[2] < 0.7 * awake_experts(384, 64, 6 / 384)
    assert counts[1] == awake_experts_of_random_router(384, 6, 8)


def test_peaks_of_chance_are_those_of_poisson_numbers():
    rng = np.random.default_rng(0)
    for mean, ranks in ((400, 8), (400, 64), (3000, 32)):
        drawn = rng.poisson(mean, (2000, ranks)).max(axis=1).mean() / mean
        assert drawn <= chance_peak_to_mean(mean, ranks) <= 1.35 * (drawn - 1) + 1.02
    assert chance_peak_to_mean(100, 1) == 1 and chance_peak_to_mean(1e-3, 4) == 4 and chance_peak_to_mean(0, 4) == 1


def test_links_reproduce_what_is_published_for_deep_ep():
    links = LinkModel()
    values = 128 * 8 * 7168
    for ranks, (dispatch, combine) in DEEP_EP.items():
        assert links.all_to_all_us(values * (1 + 4 / 128), ranks) == pytest.approx(dispatch, rel=0.12)
        assert links.all_to_all_us(values * 2, ranks) == pytest.approx(combine, rel=0.12)
    assert links.all_to_all_us(1e9, 1) == 0
    assert links.all_to_all_us(0, 8) == links.latency_us


def test_memory_of_a_rank_is_that_of_the_documentation():
    memory = RankMemory.of_model(CONFIG, int(141e9))  # doc/full_model.md
    assert memory.weight_bytes(4, 0) / 2**30 == pytest.approx(78.3, abs=0.05)
    assert memory.weight_bytes(8, 0) / 2**30 == pytest.approx(43.7, abs=0.05)
    assert memory.max_seqs(2, 0, 4096) == 0 < memory.max_seqs(4, 0, 4096) < memory.max_seqs(8, 0, 4096)
    assert memory.weight_bytes(8, 32) > memory.weight_bytes(8, 0)


def test_selection_and_attention_follow_the_context():
    costs = StepCosts(published(), h200())
    key = ("select_entries", "ratio 1, makes candidates")
    measured = h200().points(key)[0].us
    assert costs.call_us(key, 1, h200().context_len) == pytest.approx(measured)
    assert costs.call_us(key, 1, 2 * h200().context_len) == pytest.approx(2 * measured, rel=0.1)
    assert 0 <= costs.call_us(key, 1, 1) < 0.1 * measured
    attention = ("sparse_attention", "window and ratio 2")
    window = h200().points(("sparse_attention", "window"))[1].us
    full = h200().points(attention)[1].us
    assert costs.call_us(attention, 64, 4096) == pytest.approx(full)
    assert costs.call_us(attention, 64, 512) == pytest.approx((window + full) / 2)
    assert costs.dense_us(8, 2048) < costs.dense_us(8, 200_000)


def test_experts_at_the_measured_points():
    costs = StepCosts(published(), h200())
    one, many = (h200().points(("moe", "experts"))[place] for place in (0, 2))
    assert costs.experts_us(ExpertWork(6, 6, 1)) == pytest.approx(one.us, rel=0.03)
    assert costs.experts_us(ExpertWork(384, 4096 * 6, 4096)) == pytest.approx(many.us, rel=0.03)
