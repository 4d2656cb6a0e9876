"""Configs for the parsing tests: the published one and the golden ones, as fresh dictionaries."""

import copy
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FLASH = ROOT / "deepinfer" / "data" / "configs" / "deepseek-v41-flash.json"
_VALUES = {
    "flash": json.loads(FLASH.read_text(encoding="utf-8")),
    "bare": json.loads((ROOT / "tests/golden/bare-s4/config.json").read_text(encoding="utf-8")),
    "nano": json.loads((ROOT / "tests/golden/nano-s1/config.json").read_text(encoding="utf-8")),
}


@pytest.fixture
def flash():
    return copy.deepcopy(_VALUES["flash"])


@pytest.fixture
def bare():
    return copy.deepcopy(_VALUES["bare"])


@pytest.fixture
def nano():
    return copy.deepcopy(_VALUES["nano"])


@pytest.fixture
def flash_path():
    return FLASH
