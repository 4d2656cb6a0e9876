"""YOCO options: forms, limits, and the models that allow them."""

from __future__ import annotations

from typing import Any

import pytest

from deepinfer.config.engine_config import EngineConfig
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.config.yoco_config import YocoConfig
from deepinfer.errors import ConfigError
from tests.support.tiny_config import tiny_config

WINDOW = 8
_NO_ENGRAM: dict[str, Any] = {"engram_layer_ids": [], "engram_num_embeddings": []}


def resolve(yoco: Any, speculative: Any = None, **text_fields: Any) -> YocoConfig:
    values = tiny_config(**_NO_ENGRAM, **text_fields)
    if 1 not in values["text_config"]["compress_ratios"]:
        values["text_config"]["candidate_source_layer_id"] = None
    model = DeepSeekV41Config.from_dict(values)
    return EngineConfig.create(yoco=yoco, speculative=speculative).resolve(model, "reference").yoco


@pytest.mark.parametrize("value", [None, "off", {"mode": "off"}, {"mode": "off", "keep_tokens": 1}, {}])
def test_off(value: Any) -> None:
    assert resolve(value) == YocoConfig("off", None)
    assert resolve(value).num_kept == 0


@pytest.mark.parametrize("mode", ["mask", "compact"])
def test_the_least_is_the_default_and_the_limit(mode: str) -> None:
    with_drafts = WINDOW + 3 + 1
    assert resolve(mode) == YocoConfig(mode, with_drafts)
    assert resolve({"mode": mode, "keep_tokens": 0}, "off") == YocoConfig(mode, WINDOW)
    assert resolve({"mode": mode}, {"num_drafts": 7}).num_kept == WINDOW + 8
    assert resolve({"mode": mode, "keep_tokens": 99}).num_kept == 99
    with pytest.raises(ConfigError, match=rf"yoco.keep_tokens.* 11.*at least {with_drafts}.*window, 8.*3 drafts \+ 1"):
        resolve({"mode": mode, "keep_tokens": with_drafts - 1})
    with pytest.raises(ConfigError, match=r"yoco.keep_tokens.*at least 8 \(the sliding window, 8\)"):
        resolve({"mode": mode, "keep_tokens": WINDOW - 1}, "off")


@pytest.mark.parametrize("value", ["fast", 1, True, {"mode": "half"}, {"mode": None}, {"keep": 3}, ["mask"]])
def test_wrong_forms(value: Any) -> None:
    with pytest.raises(ConfigError, match="yoco"):
        EngineConfig.create(yoco=value)


@pytest.mark.parametrize("keep", [-1, 1.5, True, "9"])
def test_wrong_numbers(keep: Any) -> None:
    with pytest.raises(ConfigError, match="yoco.keep_tokens"):
        EngineConfig.create(yoco={"mode": "mask", "keep_tokens": keep})


def test_models_without_consumers() -> None:
    fields = {"compress_ratios": [0, 0, 2, 2, 2, 2, 2, 2, 0, 0, 0], "kv_source_layer_ids": [2, 5]}
    assert resolve("off", **fields).is_off
    with pytest.raises(ConfigError, match="no layer with compression ratio 1"):
        resolve("compact", **fields)


def test_another_ratio_behind_the_boundary() -> None:
    fields = {"compress_ratios": [0, 0, 2, 2, 2, 1, 1, 2, 0, 0, 0], "kv_source_layer_ids": [2, 5, 7]}
    with pytest.raises(ConfigError, match="layer 7 has another ratio than 1 behind the first ratio-1 layer 5"):
        resolve("mask", **fields)


def test_draft_targets_on_both_sides() -> None:
    fields = {"dspark_target_layer_ids": [4, 5]}
    assert resolve("off", **fields).is_off
    assert resolve("compact", "off", **fields).num_kept == WINDOW
    with pytest.raises(ConfigError, match=r"layers \[4, 5\], which lie on both sides of layer 5"):
        resolve("compact", **fields)
    for targets in ([5, 7], [2, 4]):
        assert resolve("compact", dspark_target_layer_ids=targets).num_kept == WINDOW + 4
