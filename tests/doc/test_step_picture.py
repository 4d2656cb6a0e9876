"""The picture of decode steps: from two made-up traces, as XML."""

import runpy
from pathlib import Path
from xml.etree import ElementTree

import pytest

from deepinfer.profile.span import Span
from deepinfer.profile.step_trace import StepTrace

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "bench/step_picture.py"))


def trace(period: int, num_steps: int) -> StepTrace:
    """Steps of so many nanoseconds, a quarter of them sampling, and a wait of the host for each."""
    spans = []
    for number in range(num_steps):
        begin, details = number * period, {"step_id": number, "kind": "decode"}
        middle, end = begin + period * 3 // 4, begin + period
        spans += [Span("forward", "device", begin, middle, details), Span("sample", "device", middle, end, details)]
        spans.append(Span("wait", "host", begin, end, details))
    return StepTrace(spans)


def test_bars_have_the_length_of_their_times() -> None:
    svg = SCRIPT["picture"](trace(2_000_000, 9), trace(1_000_000, 9))
    root = ElementTree.fromstring(svg)
    texts = [item.text for item in root if item.tag.endswith("text")]
    assert {"without overlap: 2000 us a step", "with overlap: 1000 us a step", "forward N", "wait N+1"} <= set(texts)
    widths = {}
    for item in root:
        for title in item:
            widths.setdefault(title.text.split(", step")[0] + title.text.split(":")[1], []).append(item.get("width"))
    scale = SCRIPT["WIDTH"] / (2.6 * 2000)
    assert max(map(float, widths["forward 1500 us"])) == pytest.approx(1500 * scale, abs=0.1)
    assert max(map(float, widths["sample 250 us"])) == pytest.approx(250 * scale, abs=0.1)


def test_too_short_a_trace() -> None:
    with pytest.raises(SystemExit, match="five decode steps"):
        SCRIPT["picture"](trace(1000, 4), trace(1000, 9))
