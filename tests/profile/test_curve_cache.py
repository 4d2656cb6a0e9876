"""Measured curves on disk: kept, expired, damaged, foreign, and a directory that cannot be written."""

import json
import logging
import threading
from pathlib import Path

import pytest

from deepinfer.config.cost_curves import CostCurves
from deepinfer.profile.curve_cache import CurveCache

CURVES = CostCurves(((1, 2.0), (8, 3.5)), ((1, 0.5),))
KEY = "ab12"


def test_kept_until_it_is_too_old(tmp_path):
    clock = [1000.0]
    cache = CurveCache(tmp_path / "new", 60, lambda: clock[0])
    assert cache.load(KEY) is None
    cache.store(KEY, CURVES)
    assert cache.load(KEY) == CURVES and cache.load("cd34") is None
    clock[0] = 1060.0
    assert cache.load(KEY) == CURVES
    clock[0] = 1060.5
    assert cache.load(KEY) is None
    clock[0] = 999.0  # a clock that was set back
    assert cache.load(KEY) is None
    assert [file.name for file in (tmp_path / "new").iterdir()] == [f"{KEY}.json"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: text.replace(KEY, "ffff"),
        lambda text: text.replace("2.0", "-2.0"),
        lambda text: "[1, 2]",
        lambda text: json.dumps({**json.loads(text), "created": "yesterday"}),
        lambda text: "\udcff",
    ],
)
def test_unusable_files_are_a_warning(tmp_path, damage, caplog):
    cache = CurveCache(tmp_path, 60)
    cache.store(KEY, CURVES)
    file = tmp_path / f"{KEY}.json"
    file.write_text(damage(file.read_text()), errors="surrogateescape")
    with caplog.at_level(logging.WARNING):
        assert cache.load(KEY) is None
    assert str(file) in caplog.text and "measuring again" in caplog.text
    cache.store(KEY, CURVES)
    assert cache.load(KEY) == CURVES


def test_a_directory_that_cannot_be_used_is_a_warning(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    cache = CurveCache(tmp_path / "file", 60)
    cache.store(KEY, CURVES)
    assert cache.load(KEY) is None
    assert "cannot be kept" in caplog.text


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000, "\ud800"])
def test_a_name_no_directory_can_have_is_a_warning(name, caplog):
    cache = CurveCache(Path(name), 60)
    assert cache.load(KEY) is None
    cache.store(KEY, CURVES)
    assert "cannot be kept" in caplog.text


def test_writers_at_the_same_time_leave_whole_files(tmp_path):
    cache = CurveCache(tmp_path, 60)
    threads = [threading.Thread(target=cache.store, args=(KEY, CURVES)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.load(KEY) == CURVES and len(list(tmp_path.iterdir())) == 1
