"""Profiles: what is refused, and floors."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deepinfer.bench.planner.kernel_profile import KernelProfile
from deepinfer.bench.planner.step_costs import StepCosts
from deepinfer.errors import ConfigError
from tests.bench.planner.bundled import PROFILE, h200, published


def changed(tmp_path: Path, change: Any) -> Path:
    content = json.loads(PROFILE.read_text("utf-8"))
    change(content)
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.pop("ops"),
        lambda content: content.update(ops=[]),
        lambda content: content.update(ops=3),
        lambda content: content.pop("limits"),
        lambda content: content["ops"][0]["backends"]["cuda"].update(median_us=-1.0),
        lambda content: content["ops"][0]["backends"].pop("cuda"),
        lambda content: content["steps"][0].update(colour="red"),
        lambda content: content["about"].update(context_len=None),
        lambda content: content["limits"].update(gigabytes_per_second=0),
        lambda content: content["ops"][0].update(rows=0),
        lambda content: content["steps"][0].update(part="half"),
        lambda content: content["steps"][0].update(ms="3"),
        lambda content: content["steps"][0].update(num_seqs=0),
        lambda content: content["steps"][0]["changes"].update(num_layers=3),
        lambda content: content.update(steps=[3]),
    ],
)
def test_a_file_that_is_no_profile_is_refused_by_name(tmp_path: Path, change: Any):
    with pytest.raises(ConfigError, match="changed.json"):
        KernelProfile.read(changed(tmp_path, change))


@pytest.mark.parametrize("changes", [{"num_hidden_layers": 3}, {"num_hidden_layers": "three"}, {"compress_ratios": 7}])
def test_a_step_of_an_impossible_model_is_refused(changes: dict[str, Any]):
    with pytest.raises(ConfigError):
        replace(h200().steps[0], changes=changes).config(published())


def test_an_op_measured_twice_has_its_last_time(tmp_path: Path):
    def again(content: Any) -> None:
        row = json.loads(json.dumps(content["ops"][0]))
        row["backends"]["cuda"]["median_us"] = 123.0
        content["ops"].append(row)

    key = ("expand_embedding", "embedding")
    points = KernelProfile.read(changed(tmp_path, again)).points(key)
    assert [point.us for point in points] == [123.0, *(point.us for point in h200().points(key)[1:])]


def test_an_op_that_was_not_measured_is_named(tmp_path: Path):
    def without_rope(content: Any) -> None:
        content["ops"] = [row for row in content["ops"] if row["op"] != "apply_rope"]

    with pytest.raises(ConfigError, match="apply_rope"):
        StepCosts(published(), KernelProfile.read(changed(tmp_path, without_rope)))


def test_a_profile_of_another_model_is_refused():
    with pytest.raises(ConfigError, match=r"384x2304x5120.*weight is 384x1024x5120"):
        StepCosts(replace(published(), moe_intermediate_size=1024), h200())


def test_floors_are_never_above_what_was_measured():
    floors = h200().at_floors()
    assert not floors.steps and set(floors.ops) == set(h200().ops)
    for key, points in floors.ops.items():
        for floor, point in zip(points, h200().ops[key], strict=True):
            assert 0 < floor.us <= point.us
    experts = floors.points(("moe", "experts"))[0]
    assert experts.us == pytest.approx(experts.num_bytes / 4254e3 + 3, rel=1e-3)
