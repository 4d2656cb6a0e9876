"""bench/wide_ep_plan.py: what it says of a report whose figures are the planner's own."""

import json
import runpy
from pathlib import Path

import pytest

from deepinfer.bench.planner.kernel_profile import KernelProfile

ROOT = Path(__file__).parents[3]
SCRIPT = runpy.run_path(str(ROOT / "bench/wide_ep_plan.py"))
LINKS = [
    {"bytes": 2**16, "all_to_all_us": 20.0, "all_to_all_gb_s": 1.6},
    {"bytes": 2**28, "all_to_all_us": 520.0, "all_to_all_gb_s": 240.0},
]


def point(width, batch, step_ms):
    return {"experts_over": width, "batch": batch, "context_len": 52, "step_ms": step_ms}


def said(capsys, path, report, *words):
    path.write_text(json.dumps(report))
    SCRIPT["main"](SCRIPT["parsed"]([str(path), *map(str, words)]))
    return capsys.readouterr().out.splitlines()


def test_predictions_stand_beside_measurements(tmp_path, capsys):
    alone = [point(1, batch, ms) for batch, ms in ((1, 2.1), (16, 5.9), (64, 11.4))]
    report = {"num_gpus": 2, "links": LINKS, "decode": [*alone, point(2, 64, 10.0)]}
    lines = said(capsys, tmp_path / "r.json", report, "--profile", tmp_path / "p.json")
    assert lines[0] == "links: 20.0 us and 250 GB/s a GPU"
    assert len(lines) == 6 and lines[2].startswith("experts over 1, 1 sequences: 2.10 ms, model 2.")
    predicted = float(lines[-1].split("predicted ")[1].split()[0])
    report["decode"][-1]["step_ms"] = predicted
    error = said(capsys, tmp_path / "r.json", report)[-1].split("(")[1].split("%")[0]
    assert abs(float(error)) < 0.2  # predictions are shown with two digits
    assert [step.num_seqs for step in KernelProfile.read(tmp_path / "p.json").steps] == [1, 16, 64]
    assert SCRIPT["measured_links"](report).all_to_all_us(2**21, 2) == pytest.approx(20 + 2**20 / 249.6e3)


def test_loop_and_exchange_of_lock_steps_are_taken_as_measured(tmp_path, capsys):
    """Whole steps of one GPU come out exactly; the host's share is what its lock steps take longer."""
    alone = [point(1, batch, ms) for batch, ms in ((1, 2.1), (16, 5.9), (64, 11.4), (256, 25.0))]
    locked = [point(1, step["batch"], step["step_ms"] + 0.25 * n) | {"lockstep": True} for n, step in enumerate(alone)]
    exchange = [{"rows": 1, "static_bytes": 71728.0, "static_us": 40.0}]
    exchange.append({"rows": 64, "static_bytes": 64 * 71728.0, "static_us": 90.0})
    report = {"num_gpus": 2, "links": LINKS, "exchange of decode steps": exchange}
    report["decode"] = [*alone, *locked, point(2, 16, 6.0), point(2, 64, 10.0)]
    *fit, sixteen, last = said(capsys, tmp_path / "r.json", report, "--profile", tmp_path / "p.json")
    assert len(fit) == 6 and all("(+0.0%)" in line or "(-0.0%)" in line for line in fit[2:])
    assert "host 0.25)" in sixteen and "host 0.50)" in last
    assert "exchange 0.72," in last  # eight layers
    profile = KernelProfile.read(tmp_path / "p.json")
    assert profile.lockstep.host == ((1.0, 0.0), (16.0, pytest.approx(0.25)), (64.0, 0.5), (256.0, 0.75))
    assert profile.at_floors().lockstep is None


def test_a_measured_share_in_the_experts_is_what_a_rank_takes(tmp_path, capsys):
    """Of eight layers; a report without has the factor of one GPU."""
    alone = [point(1, batch, ms) for batch, ms in ((1, 2.1), (16, 5.9), (64, 11.4))]
    locked = [step | {"lockstep": True} for step in alone]
    exchange = [{"rows": 1, "static_bytes": 71728.0, "static_us": 40.0}]
    report = {"num_gpus": 2, "links": LINKS, "exchange of decode steps": exchange}
    report["decode"] = [*alone, *locked, point(2, 16, 6.0), point(2, 64, 10.0)]
    without = said(capsys, tmp_path / "r.json", report)[-1]
    share = {"experts_over": 2, "shared_us": 50.0}
    report["experts of a rank"] = [share | {"batch": 16, "picked_us": 350.0}, share | {"batch": 64, "picked_us": 750.0}]
    *_, sixteen, last = said(capsys, tmp_path / "r.json", report, "--profile", tmp_path / "p.json")
    assert "experts 3.20," in sixteen and "experts 6.40," in last and "experts 6.40," not in without
    assert KernelProfile.read(tmp_path / "p.json").lockstep.experts == ((2, 16, 400.0), (2, 64, 800.0))
