"""transformers' Auto classes know V4.1 after register(), and only then; no remote code is involved."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.text.tokenizer import Tokenizer

ROOT = Path(__file__).parents[2]
MINI = ROOT / "deepinfer" / "data" / "mini"
SCRIPT = f"""
import sys
import deepinfer
from deepinfer import LLM
assert "transformers" not in sys.modules
from transformers import AutoConfig, AutoTokenizer
path = {str(MINI)!r}
try:
    AutoConfig.from_pretrained(path)
except ValueError as error:
    assert "deepseek_v41" in str(error)
else:
    raise AssertionError("known without registration")
from deepinfer.integrations.transformers import register
register()
assert AutoConfig.from_pretrained(path).model_type == "deepseek_v41"
"""


def test_only_on_request() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def registered():
    transformers = pytest.importorskip("transformers")
    from deepinfer.integrations.transformers import register

    register()
    register()  # a second time changes nothing
    return transformers


def test_config(registered, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = registered.AutoConfig.from_pretrained(MINI)
    given = json.loads((MINI / "config.json").read_text(encoding="utf-8"))
    kept = config.to_dict()
    assert {key: kept[key] for key in given if key != "transformers_version"} == {
        key: value for key, value in given.items() if key != "transformers_version"
    }
    with caplog.at_level(logging.WARNING):
        assert config.to_deepinfer() == DeepSeekV41Config.from_path(MINI)
    assert not caplog.records
    config.save_pretrained(tmp_path)
    assert registered.AutoConfig.from_pretrained(tmp_path).text_config == given["text_config"]


def test_tokenizer(registered) -> None:
    theirs = registered.AutoTokenizer.from_pretrained(MINI)
    ours = Tokenizer.from_path(MINI)
    text = "é <｜User｜>What is 2 + 2?<｜Assistant｜></think> 4"
    assert theirs(text).input_ids == ours.encode(text)
    assert theirs.decode(ours.encode(text)) == ours.decode(ours.encode(text))
    assert (theirs.bos_token_id, theirs.eos_token_id, theirs.pad_token_id) == (0, 1, 2)
