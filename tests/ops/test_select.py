"""Choosing a backend."""

from __future__ import annotations

import pytest

from deepinfer.errors import ConfigError, UnsupportedFeatureError
from deepinfer.ops import reference, select_backend


@pytest.mark.parametrize("device", ["cpu", "cuda", "cuda:1"])
def test_auto_is_reference_and_says_why(device: str):
    chosen = select_backend("auto", device)
    assert chosen.name == "reference" and chosen.ops is reference
    assert device in chosen.reason
    assert set(chosen.rejected) == {"cpu", "cuda"} and all(chosen.rejected.values())


def test_reference_can_be_named():
    assert select_backend("reference", "cpu").reason == "named explicitly"


@pytest.mark.parametrize(("name", "missing"), [("cpu", "C\\+\\+ kernels"), ("cuda", "TileLang kernels")])
def test_missing_backends_say_what_is_missing(name: str, missing: str):
    with pytest.raises(UnsupportedFeatureError, match=missing):
        select_backend(name, "cpu")


def test_unknown_name():
    with pytest.raises(ConfigError, match="'tpu'"):
        select_backend("tpu", "cpu")
