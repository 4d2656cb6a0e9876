"""Pictures and tables from results of `bench ops` and `bench step`."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from deepinfer.bench.model_cases import model_cases
from deepinfer.bench.random_operands import RandomOperands
from deepinfer.bench.sampler_cases import sampler_cases
from deepinfer.bench.step_calls import decode_calls
from deepinfer.bench.step_op import StepOp
from deepinfer.bench.throughput_curve import DecodeTime, ThroughputCurve
from deepinfer.cli.main import app
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.errors import ConfigError
from tests.cli.test_main import invoke
from tests.support.golden_case import GOLDEN

ROOT = GOLDEN.parents[1]
CONFIG = GOLDEN / "nano-s1" / "config.json"
SVG = "{http://www.w3.org/2000/svg}"


def ops_of_a_step(config: DeepSeekV41Config, num_seqs: int, num_drafts: int) -> tuple[StepOp, ...]:
    random = RandomOperands(torch.device("cpu"), 1)
    cases = [*model_cases(config, random, 1), *sampler_cases(config, random)]
    parts = decode_calls(cases, config, num_seqs, num_drafts)
    return tuple(StepOp(*key, part.rows, calls, 2e-6, 1e-6) for part in parts for key, calls in part.calls.items())


def step(num_seqs: int, num_drafts: int, ms: float, **others: Any) -> dict[str, Any]:
    ops = ops_of_a_step(DeepSeekV41Config.from_path(CONFIG), num_seqs, num_drafts)
    found = {"kind": "decode", "sequences": num_seqs, "rows": num_seqs * (1 + num_drafts), "num_drafts": num_drafts}
    found |= {"drafts": "fixed" if num_drafts else "off", "step": {"median_ms": ms}}
    return found | {"ops": [op.to_dict() for op in ops]} | others


def texts(picture: Path) -> list[str | None]:
    return [text.text for text in ElementTree.parse(picture).getroot().iter(f"{SVG}text")]


def test_throughput_of_drafts_and_of_more_layers(tmp_path: Path) -> None:
    result, drafted, picture = tmp_path / "steps.json", tmp_path / "drafted.json", tmp_path / "curve.svg"
    plain = [step(1, 0, 4.0), step(64, 0, 8.0), {"kind": "prefill", "rows": 9}]
    fixed = [step(1, 5, 5.0), step(64, 5, 32.0), step(64, 0, 1.0, drafts="scheduled")]
    result.write_text(json.dumps({"steps": plain}), encoding="utf-8")
    drafted.write_text(json.dumps({"steps": fixed}), encoding="utf-8")
    also = ("--also", str(drafted), "--model", str(CONFIG))
    chances = [option for chance in (0.8, 0.6, 0.4, 0.1, 0.1) for option in ("--accepted", str(chance))]
    table = invoke("bench", "plot", str(result), str(picture), *chances, *also).splitlines()
    speeds = {tuple(line.rsplit(maxsplit=2)[0].split()) + (line.split()[-2],): line.split()[-1] for line in table[2:]}
    assert speeds["measured", "drafts", "off", "1"] == "250" and speeds["measured", "drafts", "off", "64"] == "8000"
    assert speeds["measured", "fixed,", "5", "drafts", "1"] == "600"
    assert speeds["measured", "varlen", "1"] == "600" and speeds["measured", "varlen", "64"] == "8000"
    assert speeds["whole", "varlen", "64"] == "8000"  # the same model
    num_layers = DeepSeekV41Config.from_path(CONFIG).num_hidden_layers
    assert f"{num_layers} layers, varlen" in texts(picture)


def test_a_whole_model_takes_as_much_more_as_its_ops_do() -> None:
    config = DeepSeekV41Config.from_path(CONFIG)
    ops = ops_of_a_step(config, 3, 0)
    slow = tuple(replace(op, seconds=op.seconds * (9 if op.op == "moe" else 1)) for op in ops)
    fewer = tuple(replace(op, calls=1) for op in slow)
    ratio = sum(op.calls * op.seconds for op in slow) / sum(op.seconds for op in slow)
    assert DecodeTime(3, 0, 5.0, fewer).whole_ms(config) == pytest.approx(5.0 * ratio) and ratio > 2
    with pytest.raises(ConfigError, match="moe"):
        DecodeTime(3, 0, 5.0, tuple(op for op in ops if op.op != "moe")).whole_ms(config)


def test_results_that_come_along_can_be_drawn(tmp_path: Path) -> None:
    picture = tmp_path / "picture.svg"
    invoke("bench", "plot", str(ROOT / "doc/results/h200-ops-tuned.json"), str(picture))
    assert {"roof", "moe", "sparse_attention"} <= set(texts(picture))
    path = ROOT / "doc/results/h200-steps.json"
    steps = json.loads(path.read_text("utf-8"))["steps"]
    plain = [step for step in steps if (step["kind"], step["drafts"]) == ("decode", "off")]
    printed = invoke("bench", "plot", str(path), str(picture))
    assert len(plain) > 2 and all(f"{step['tokens_per_second']:.0f}\n" in printed for step in plain)


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ({"other": []}, (), "neither"),
        ({"steps": [{"kind": "decode"}]}, (), "no decode steps"),
        ({"steps": []}, (), "without drafts"),
        ({"steps": [{"kind": "decode", "rows": 1, "step": {"median_ms": 1.0}}]}, ("--model", "published"), "their ops"),
    ],
)
def test_results_that_do_not_do(
    tmp_path: Path, content: dict[str, Any], options: tuple[str, ...], message: str
) -> None:
    result = tmp_path / "result.json"
    result.write_text(json.dumps(content), encoding="utf-8")
    found = CliRunner().invoke(app, ["bench", "plot", str(result), str(tmp_path / "picture.svg"), *options])
    assert found.exit_code == 2 and message in " ".join(found.output.split())


def test_options_of_steps_are_refused_for_ops(tmp_path: Path) -> None:
    result = str(ROOT / "doc/results/h200-ops-tuned.json")
    for options in (("--also", result), ("--accepted", "0.5"), ("--model", "published")):
        found = CliRunner().invoke(app, ["bench", "plot", result, str(tmp_path / "picture.svg"), *options])
        assert found.exit_code == 2 and "are for steps" in " ".join(found.output.split())


@pytest.mark.parametrize(("field", "value"), [("rows", 0), ("calls", 1.5), ("us", 0.0), ("floor_us", -1)])
def test_an_op_of_a_step_takes_time(field: str, value: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        StepOp.parse(StepOp("moe", "experts", 1, 2, 3e-6, 1e-6).to_dict() | {field: value})


def test_more_drafts_than_chances_are_refused(tmp_path: Path) -> None:
    result = tmp_path / "steps.json"
    result.write_text(json.dumps({"steps": [step(1, 0, 4.0), step(1, 3, 4.0)]}), encoding="utf-8")
    with pytest.raises(ConfigError, match="more drafts"):
        ThroughputCurve.read([result], (0.5, 0.2), None)
