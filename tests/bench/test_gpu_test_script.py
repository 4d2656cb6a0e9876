"""tests/gpu/run_all.py: its command line."""

import runpy
from pathlib import Path

import pytest

SCRIPT = runpy.run_path(str(Path(__file__).parents[1] / "gpu/run_all.py"))


@pytest.mark.parametrize("words", ["--multigpu r.json --within=5 a.py b.py", "r.json a.py b.py --within 5 --multigpu"])
def test_options_may_stand_anywhere(words: str) -> None:
    parsed = SCRIPT["parsed"](words.split())
    assert (parsed.multigpu, parsed.within) == (True, 5.0)
    assert (str(parsed.report), [str(path) for path in parsed.files]) == ("r.json", ["a.py", "b.py"])


def test_a_report_alone() -> None:
    parsed = SCRIPT["parsed"](["r.json"])
    assert not parsed.files and not parsed.multigpu and parsed.within == float("inf")
