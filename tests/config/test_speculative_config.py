"""Options of drafts from outside: wrong types, huge numbers and hostile files are errors that name the option."""

import os

import numpy as np
import pytest

from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.config.speculative_config import MAX_DRAFTS, SpeculativeConfig
from deepinfer.errors import ConfigError

HUGE = 10**400
CURVE = [[1, 1.0]]
WRONG = {
    "num_drafts": [True, 1.0, "5", HUGE, float("nan"), np.array([1, 2])],
    "varlen": [1, 0, 1.0, None, "on", np.True_, np.array([1, 2])],
    "acceptance": ["x", 1, b"coupled", np.array(["coupled", "rejection"])],
    "temperatures": [HUGE, [HUGE], True, [1.0, True], b"12", "1", [], {1: 2}, 0, [float("inf")], [[1]], np.ones(2)],
    "cost_curve": [
        True,
        b"measure",
        np.ones(2),
        "",
        "a\0b",
        "x" * 5000,
        "/dev/zero",
        {"step": b"ab"},
        {"step": [b"ab"]},
        {"step": [[1, HUGE]]},
        {"step": [[HUGE, 1.0]]},
        {"step": [[2**31, 1.0]]},
        {"step": [[1, True]]},
        {"step": [[1] * 100_000]},
        {"step": "1" * 100_000},
        {"step": CURVE, "draft": None},
        {"step": CURVE, "draft": [[2, 1.0], [1, 1.0]]},
    ],
    "cost_cache_dir": [5, b"x", "", ["x"]],
    "cost_cache_seconds": [-1, True, HUGE, "5", float("nan"), float("inf")],
    "report_confidences": [1, None, "yes"],
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_values_are_named(name):
    for value in WRONG[name]:
        with pytest.raises(ConfigError, match=f"^speculative.{name}") as error:
            SpeculativeConfig.parse({name: value})
        assert len(str(error.value)) < 1000


@pytest.mark.parametrize("value", [True, 5, [], b"off", np.ones(2), "", "auto", "/dev/zero", ".", {"x" * 5000: 1}])
def test_what_is_no_option_at_all(value):
    with pytest.raises(ConfigError, match="^speculative") as error:
        SpeculativeConfig.parse(value)
    assert len(str(error.value)) < 1000


HOSTILE = {
    "deep": b"[" * 100_000,
    "twice": b'{"num_drafts": 1, "num_drafts": 2}',
    "infinite": b'{"temperatures": [1e999]}',
    "digits": b'{"num_drafts": ' + b"9" * 5000 + b"}",
    "list": b"[]",
    "empty": b"",
    "binary": bytes(range(256)),
    "boolean": b'{"temperatures": true}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files(name, tmp_path):
    file = tmp_path / "some.json"
    file.write_bytes(HOSTILE[name])
    for value in (file, str(file), {"cost_curve": file}):
        with pytest.raises(ConfigError, match="^speculative") as error:
            SpeculativeConfig.parse(value)
        assert len(str(error.value)) < 1000


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="^speculative.*: not a regular file;"):
        SpeculativeConfig.parse(tmp_path / "pipe")


def test_a_longer_trained_block_is_cut_to_what_a_step_can_take(nano):
    nano["text_config"]["dspark_block_size"] = 2 * MAX_DRAFTS
    assert SpeculativeConfig().drafts_for(DeepSeekV41Config.from_dict(nano)) == MAX_DRAFTS
