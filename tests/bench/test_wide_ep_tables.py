"""bench/wide_ep_tables.py: the tables of doc/wide_ep.md are those of the report that is kept."""

import argparse
import json
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = runpy.run_path(str(ROOT / "bench/wide_ep_tables.py"))


def printed(capsys, report, tests=None):
    SCRIPT["main"](argparse.Namespace(report=report, tests=tests))
    return capsys.readouterr().out.splitlines()


def test_doc_has_the_figures_of_the_report(capsys):
    doc = (ROOT / "doc/wide_ep.md").read_text("utf-8").splitlines()
    lines = [line for line in printed(capsys, ROOT / "doc/results/h200x2-wide-ep.json") if line.startswith("|")]
    assert len(lines) > 25 and set(lines) <= set(doc), set(lines) - set(doc)


def test_sections_that_failed_and_tests(tmp_path, capsys):
    parts = {"device_ms": 2.0, "outside_ms": 0.5, "vote_ms": 0.1}
    step = {"experts_over": 1, "lockstep": True, "batch": 1024, "step_ms": 2.5, "p90_ms": 2.75}
    step |= {"tokens_s_user": 400.0, "tokens_s_gpu": 409600.0, **parts}
    report = {"votes": [{"gloo_us": 900.0}], "decode": [step], "context": [{"failed": "no memory"}, {"seconds": 1.5}]}
    cases = [{"outcome": "passed"}, {"outcome": "skipped"}, {"outcome": "passed"}]
    (tmp_path / "report.json").write_text(json.dumps(report))
    (tmp_path / "tests.json").write_text(json.dumps({"files": [{"file": "a/b.py", "seconds": 2.6, "tests": cases}]}))
    lines = printed(capsys, tmp_path / "report.json", tmp_path / "tests.json")
    assert "| 1, lock steps | 1,024 | 2.50 | 2.75 | 400.0 | 409,600 | 2.00 | 0.50 | 0.10 |" in lines
    assert "|  | 900 |" in lines and "no memory" in lines and "* seconds 1.5" in lines
    assert "| `b.py` | 2 | 0 | 1 | 3 s |" in lines
