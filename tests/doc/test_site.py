"""The documentation site: every page has a place, pages made from the code are whole, pictures can be read."""

import dataclasses
import re
import runpy
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
import yaml

import deepinfer
from deepinfer.config.engine_config import EngineConfig
from deepinfer.profile.span import Span
from deepinfer.profile.step_trace import StepTrace

ROOT = Path(__file__).parents[2]
DOC = ROOT / "doc"
PAGES = runpy.run_path(str(DOC / "site/reference_pages.py"))["pages"]()
PICTURES = runpy.run_path(str(ROOT / "bench/mechanism_pictures.py"))


def test_every_page_has_a_place() -> None:
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]
    listed = []
    for entry in nav:
        (target,) = entry.values()
        listed += [target] if isinstance(target, str) else [page for item in target for page in item.values()]
    assert sorted(listed) == sorted([*(path.name for path in DOC.glob("*.md")), *PAGES])


def test_pages_that_documents_name_exist() -> None:
    for path in [*DOC.glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        text = path.read_text("utf-8")
        for name in re.findall(r"`((?:doc|examples|tests|bench|deepinfer|csrc|tilelang_ops)/[\w./-]+\.\w+)`", text):
            is_made = name.removeprefix("doc/") in PAGES or "NAME" in name
            assert is_made or (ROOT / name).exists(), f"{path.name} names {name}"
        for name in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (path.parent / name).exists(), f"{path.name} links {name}"


def test_api_page() -> None:
    text = PAGES["api.md"]
    for name in deepinfer.__all__:
        if isinstance(getattr(deepinfer, name), type):
            assert f"## {name}\n" in text
    for method in ("generate", "score", "chat", "stream", "capture", "close"):
        assert f"### LLM.{method}\n" in text
    assert "LLM(\n    model=None,\n    *,\n" in text


def test_command_line_page() -> None:
    text = PAGES["cli.md"]
    for words in ("generate", "batch run", "bench throughput", "trace record", "trace summary", "check", "eval"):
        assert f"## deepinfer {words}\n" in text
    assert "| `--numerics` | `official` |" in text
    empty = re.findall(r"^\| `[^|]*\| [^|]*\|  \|$", text, flags=re.MULTILINE)
    assert empty == [], "options without help"


def test_configuration_page() -> None:
    text = PAGES["config.md"]
    for field in dataclasses.fields(EngineConfig):
        assert f"| `{field.name}` |" in text
    assert re.findall(r"^\| `\w+` \|[^|]*\|  \|$", text, flags=re.MULTILINE) == [], "fields without a word"


def test_pictures_are_svg() -> None:
    spans = [
        Span("queued", "request", 0, 5_000_000, {"request_id": "a"}),
        Span("decode", "request", 5_000_000, 20_000_000, {"request_id": "a"}),
        Span("prefill", "request", 0, 10_000_000, {"request_id": "b"}),
    ]
    root = ElementTree.fromstring(PICTURES["requests_picture"](StepTrace(spans)))
    widths = {title.text: float(item.get("width")) for item in root for title in item if ":" in title.text}
    assert widths["decode: 15.0 ms"] == pytest.approx(3 * widths["queued: 5.0 ms"], abs=0.2)
    root = ElementTree.fromstring(PICTURES["heat_map"]("t", [[1, 2], [3, 4]], "layer", "expert"))
    assert [item.text for item in root if item.get("font-size") == "10"] == ["1", "2", "3", "4"]
    picks = torch.full((16, 4), -1)
    picks[8:, 0] = 3
    svg = PICTURES["picks_picture"](picks, question=4)
    paths = [item.get("d") for item in ElementTree.fromstring(svg) if item.tag.endswith("path")]
    assert sum(path.count("M") for path in paths) == 1  # one square: positions 8 to 15, entries 0 to 7
    for name in re.findall(r"figures/(\w+)\.svg", (DOC / "mechanisms.md").read_text("utf-8")):
        ElementTree.parse(DOC / f"figures/{name}.svg")
