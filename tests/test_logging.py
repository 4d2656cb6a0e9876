"""What a plain script sees: the memory arithmetic in words, once per engine, unless somebody says otherwise."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.golden_case import GOLDEN

ROOT = Path(__file__).parent.parent
LOAD = f"from deepinfer import LLM\nLLM({str(GOLDEN / 'nano-s1')!r}, numerics='fp32', max_num_seqs=3).close()\n"


def errors_of(script: str, **variables: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **variables}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, env=environment, check=True
    )
    assert done.stdout == ""
    return done.stderr


def test_the_memory_arithmetic_is_told_at_start() -> None:
    text = errors_of(LOAD)
    for part in ("caches on cpu", "3 sequences of", "3 state slots x", "together", "for"):
        assert text.count(part) >= 1, text
    assert 4 <= len(text.splitlines()) <= 9 and "grew" not in text
    assert errors_of(LOAD + LOAD).count("caches on cpu") == 2


@pytest.mark.parametrize("level", ["warn", "off"])
def test_the_level_is_the_environments(level: str) -> None:
    assert errors_of(LOAD, DEEPINFER_CPP_LOG_LEVEL=level) == ""


def test_an_application_with_logging_of_its_own_decides() -> None:
    assert errors_of("import logging\nlogging.basicConfig(level='WARNING')\n" + LOAD) == ""
    text = errors_of("import logging\nlogging.basicConfig(level='INFO', format='mine %(message)s')\n" + LOAD)
    assert text.count("caches on cpu") == 1 and text.startswith("mine ")
    later = errors_of(LOAD + "import logging\nlogging.basicConfig(level='INFO', format='mine %(message)s')\n" + LOAD)
    assert later.count("caches on cpu") == 2 and later.count("mine caches") == 1
