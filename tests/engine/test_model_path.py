"""Where models come from: directories win, hub ids go through huggingface_hub, offline is respected."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deepinfer.engine.engine_options import engine_config
from deepinfer.engine.model_path import bundled_model_path, resolve_model_path
from deepinfer.envs import read_environment
from deepinfer.errors import CheckpointError, UnsupportedFeatureError
from tests.support.golden_case import GOLDEN

ROOT = Path(__file__).parents[2]
OFFLINE = """
import sys
from pathlib import Path
from deepinfer.engine.model_path import resolve_model_path
from deepinfer.errors import CheckpointError
assert resolve_model_path("some/model").name == "c" * 40
assert resolve_model_path("some/model", "v2").name == "d" * 40
assert (resolve_model_path("some/model", "v2") / "config.json").read_text() == "v2"
for model, revision in (("some/model", "v3"), ("other/model", None)):
    try:
        resolve_model_path(model, revision)
    except CheckpointError as error:
        assert model in str(error) and (revision or "") in str(error) and "HF_HUB_OFFLINE" in str(error), error
    else:
        raise AssertionError("resolved out of nothing")
"""


def test_directories_and_the_bundled_model() -> None:
    assert resolve_model_path(None) == bundled_model_path()
    assert resolve_model_path(str(GOLDEN / "nano-s1")) == GOLDEN / "nano-s1"
    for wrong in ("/nowhere/at/all", "./nowhere", "a/b/c", "", "owner/../x/y"):
        with pytest.raises(CheckpointError, match="no such directory, and not a hub id"):
            resolve_model_path(wrong)


def test_offline_uses_the_cache_and_never_the_network(tmp_path: Path) -> None:
    repository = tmp_path / "models--some--model"
    for revision, commit in (("main", "c" * 40), ("v2", "d" * 40)):
        (repository / "refs").mkdir(parents=True, exist_ok=True)
        (repository / "refs" / revision).write_text(commit)
        (repository / "snapshots" / commit).mkdir(parents=True)
        (repository / "snapshots" / commit / "config.json").write_text(revision)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", OFFLINE], capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr


def test_hub_calls_carry_the_revision_and_no_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls = []

    def snapshot_download(*arguments, **options):
        calls.append((arguments, options))
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    assert resolve_model_path("some/model", "v2") == tmp_path
    ((arguments, options),) = calls
    assert arguments == ("some/model",) and options["revision"] == "v2"
    assert "*.py" in options["ignore_patterns"]

    def refuse(*arguments, **options):
        raise ConnectionError("no route")

    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)
    with pytest.raises(CheckpointError, match=r"some/model.*revision 'v2': ConnectionError: no route"):
        resolve_model_path("some/model", "v2")


def test_code_of_a_checkpoint_is_never_run() -> None:
    with pytest.raises(UnsupportedFeatureError, match="code that comes with a checkpoint is never run"):
        engine_config({"model": None}, {"trust_remote_code": True}, read_environment({}))
