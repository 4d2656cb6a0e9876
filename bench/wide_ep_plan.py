"""Decode speeds of experts over several GPUs as measured by `bench/wide_ep.py`, beside what the planner predicts from
what the same run measured otherwise: steps with all experts on each GPU, in the overlapped loop and in that of lock
steps, the exchange of one layer by itself, and a rank's share in a layer's experts on one GPU. Reports without lock
steps are predicted by their links alone:

    python bench/wide_ep_plan.py REPORT.json [--ops doc/results/h200-ops-batches.json] [--profile PROFILE.json]

PROFILE.json gets these steps, for `deepinfer plan-parallel --profile`. Needs no GPU. The model of costs is fitted to
the steps of single GPUs alone; the slice's router has random weights, and steps are those of one batch.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from deepinfer.bench.planner.calibration import Calibration
from deepinfer.bench.planner.decode_planner import DecodePlanner
from deepinfer.bench.planner.kernel_profile import KernelProfile
from deepinfer.bench.planner.link_model import LinkModel
from deepinfer.bench.planner.lockstep_costs import LockstepCosts
from deepinfer.bench.planner.measured_step import MeasuredStep
from deepinfer.bench.planner.plan_options import PlanOptions
from deepinfer.bench.planner.rank_memory import RankMemory
from deepinfer.bench.planner.step_costs import StepCosts
from tests.gpu.slice_model import CHANGES

ROOT = Path(__file__).parents[1]
PUBLISHED = ROOT / "deepinfer/data/configs/deepseek-v41-flash.json"
GPU_MEMORY = 141 * 10**9


def measured_links(report: dict[str, Any]) -> LinkModel:
    """Latency of the smallest all-to-all, and the rate of the largest without it."""
    first, last = report["links"][0], report["links"][-1]
    sent = last["all_to_all_gb_s"] * last["all_to_all_us"]  # 1e3 bytes
    rate = sent / (last["all_to_all_us"] - first["all_to_all_us"])
    return LinkModel(report["num_gpus"], rate, rate, first["all_to_all_us"])


def measured_steps(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Steps of GPUs by themselves, as a profile has them."""
    return [
        {
            "changes": CHANGES,
            "num_seqs": point["batch"],
            "context_len": point["context_len"],
            "part": "step",
            "ms": point["step_ms"],
        }
        for point in points(report, width=1)
    ]


def points(report: dict[str, Any], width: int, lockstep: bool = False) -> list[dict[str, Any]]:
    """Of the decode section: overlapped steps with experts over so many GPUs; on one by itself, or in lock step."""
    found = [point for point in report["decode"] if point.get("experts_over") == width and not point.get("plain")]
    return [point for point in found if point.get("lockstep", False) == lockstep]


def measured_lockstep(report: dict[str, Any]) -> dict[str, Any] | None:
    """What lock steps cost beside the device's work, as a profile has it: on one GPU, and an exchange alone. None for a
    report without.
    """
    overlapped = {point["batch"]: point["step_ms"] for point in points(report, 1)}
    locked = {point["batch"]: point["step_ms"] for point in points(report, 1, True)}
    host = [[batch, max(0.0, step_ms - overlapped[batch])] for batch, step_ms in locked.items()]
    exchange = [[row["static_bytes"], row["static_us"]] for row in report.get("exchange of decode steps", [])]
    experts = [
        [row["experts_over"], row["batch"], row["picked_us"] + row["shared_us"]]
        for row in report.get("experts of a rank", [])
    ]
    return {"exchange": exchange, "host": host, "experts": experts} if exchange and host else None


def show_fit(calibration: Calibration) -> None:
    print(f"ops in a step take {calibration.dense_factor:.2f} times what they take alone, ", end="")
    print(f"experts {calibration.expert_factor:.2f} times")
    for check in calibration.checks:
        sizes = f"experts over 1, {check.step.num_seqs} sequences"
        print(f"{sizes}: {check.step.ms:.2f} ms, model {check.model_ms:.2f} ms ({check.error:+.1%})")


def show_prediction(planner: DecodePlanner, point: dict[str, Any]) -> None:
    found = planner.point(point["experts_over"], point["batch"])
    names = ("dense", "experts", "exchange", "host")
    times = (found.dense_ms, found.expert_ms, found.exchange_ms, found.host_ms)
    parts = ", ".join(f"{name} {ms:.2f}" for name, ms in zip(names, times, strict=True))
    measured, error = point["step_ms"], found.step_ms / point["step_ms"] - 1
    sizes = f"experts over {point['experts_over']}, {point['batch']} sequences"
    print(f"{sizes}: {measured:.2f} ms, predicted {found.step_ms:.2f} ms ({error:+.1%}; {parts})")


def main(words: argparse.Namespace) -> None:
    report = json.loads(words.report.read_text("utf-8"))
    profile = KernelProfile.read(words.ops)
    steps, lockstep = measured_steps(report), measured_lockstep(report)
    if words.profile is not None:
        content = json.loads(words.ops.read_text("utf-8")) | {"steps": steps}
        content |= {} if lockstep is None else {"lockstep": lockstep}
        words.profile.write_text(json.dumps(content, indent=1), encoding="utf-8")
    costs = None if lockstep is None else LockstepCosts.parse(lockstep)
    profile = replace(profile, steps=tuple(map(MeasuredStep.parse, steps)), lockstep=costs)
    memory = RankMemory.of_model(PUBLISHED, GPU_MEMORY)
    memory = replace(memory, config=profile.steps[0].config(memory.config))
    calibration, links = Calibration.fit(memory.config, profile), measured_links(report)
    print(f"links: {links.latency_us:.1f} us and {links.inner_gb_per_s:.0f} GB/s a GPU")
    show_fit(calibration)
    context_len = report["decode"][0]["context_len"]
    options = PlanOptions(report["num_gpus"], context_len, links=links, random_router=True, may_split=False)
    planner = DecodePlanner(StepCosts(memory.config, profile), None, calibration, memory, options)
    for point in report["decode"]:
        if point.get("experts_over", 1) > 1:
            show_prediction(planner, point)


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path)
    parser.add_argument("--ops", type=Path, default=ROOT / "doc/results/h200-ops-batches.json")
    parser.add_argument("--profile", type=Path)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main(parsed(sys.argv[1:]))
