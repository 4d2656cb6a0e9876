"""Steps beside the sum of their ops' floors."""

import json

import pytest
import torch
from typer.testing import CliRunner

from deepinfer import LLM
from deepinfer.bench.draft_mode import DraftMode
from deepinfer.bench.machine_limits import MachineLimits
from deepinfer.bench.op_figures import OpFigures
from deepinfer.bench.spread import Spread
from deepinfer.bench.step_bench import StepBench
from deepinfer.bench.step_op import StepOp
from deepinfer.cli.main import app
from tests.cli.test_main import MODEL, invoke


@pytest.mark.parametrize(
    ("num_bytes", "multiply_adds", "floor"),
    [(4_000, None, 4e-6), (4_000, 100, 4e-6), (4_000, 10_000, 1.3e-5), (0, None, 3e-6)],
)
def test_floor_is_the_longer_one_and_a_launch(num_bytes: int, multiply_adds: int | None, floor: float) -> None:
    op = OpFigures(1, "linear", "1x4 4x4", 2, num_bytes, multiply_adds, {"cpu": Spread.of([1.0])})
    assert op.floor_seconds(MachineLimits(4e9, 1e9), 3e-6) == pytest.approx(floor)


def test_without_a_peak_bytes_count_alone() -> None:
    op = OpFigures(1, "linear", "1x4 4x4", 2, 4_000, 10**9, {"cpu": Spread.of([1.0])})
    assert op.floor_seconds(MachineLimits(4e9, 0.0), 0.0) == pytest.approx(1e-6)


def test_steps_of_a_model() -> None:
    options = ["--batch", "2", "--batch", "1", "--context-len", "9", "--steps", "3", "--repeats", "1"]
    report = json.loads(invoke("bench", "step", *MODEL, *options, "--json"))
    assert [(item["kind"], item["rows"]) for item in report["steps"]] == [("decode", 2), ("decode", 1)]
    for item in report["steps"]:
        assert item["over_floor"] == pytest.approx(item["step"]["median_ms"] / item["floor_ms"])
        assert item["tokens_per_second"] == pytest.approx(item["rows"] / item["step"]["median_ms"] * 1e3)
        assert item["sequences"] == item["rows"] and item["drafts"] == "off" and item["kernels"] is None
        ops = [StepOp.parse(op) for op in item["ops"]]
        assert item["floor_ms"] == pytest.approx(sum(op.calls * op.floor_seconds for op in ops) * 1e3) and len(ops) > 10
        assert item["ops_ms"] == pytest.approx(sum(op.calls * op.seconds for op in ops) * 1e3)
    lines = invoke("bench", "step", *MODEL, "--batch", "1", "--context-len", "3", "--steps", "1").splitlines()
    assert lines[1].split()[:2] == ["step", "sequences"] and lines[2].split()[:2] == ["decode", "1"]


def test_steps_with_drafts_count_what_they_emit() -> None:
    options = {"max_num_seqs": 2, "max_model_len": 64, "speculative": DraftMode.FIXED.options(2, None, {})}
    with LLM(**options) as llm:
        found = StepBench(llm, DraftMode.FIXED, 2, repeats=2).decode(2, [], context_len=9, num_steps=12)
    assert (found.num_seqs, found.rows, found.num_drafts) == (2, 6, 2) and 2 <= found.tokens_per_step <= 6
    report = found.to_dict()
    assert report["drafts"] == "fixed" and report["over_floor"] is None and "floor_ms" not in report
    assert report["tokens_per_second"] == pytest.approx(found.tokens_per_step / found.step.median)


@pytest.mark.parametrize(
    "options",
    [["--batch", "513"], ["--prefill", "1000"], ["--drafts", "fixed"], ["--device", "tpu"], ["--device", "cuda"]],
)
def test_wrong_sizes_are_refused(options: list[str]) -> None:
    invoke("bench", "step", *MODEL, *options, code=2)


@pytest.mark.skipif(torch.cuda.is_available(), reason="has a GPU")
def test_a_gpu_is_needed_for_its_steps() -> None:
    result = CliRunner().invoke(app, ["bench", "step", "--device", "cuda"])
    assert result.exit_code == 2 and "no GPU" in result.output
