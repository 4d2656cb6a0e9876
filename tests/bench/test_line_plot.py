"""SVG line plots: well-formed, inside their frame, to scale."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from deepinfer.bench.line_plot import LinePlot
from deepinfer.errors import ConfigError

SVG = "{http://www.w3.org/2000/svg}"


def lines(plot: LinePlot) -> list[list[tuple[float, float]]]:
    root = ElementTree.fromstring(plot.svg())
    texts = [line.attrib["points"].split() for line in root.iter(f"{SVG}polyline")]
    return [[(float(x), float(y)) for x, y in (pair.split(",") for pair in text)] for text in texts]


@pytest.mark.parametrize("scale", [1e-6, 0.7, 1.0, 3.0, 999.0, 4e9])
def test_points_are_to_scale_and_inside_the_frame(scale):
    plot = LinePlot("a", "b", "c")
    plot.add("straight", [(0, 0), (scale, 2 * scale), (2 * scale, 4 * scale)], marks=True)
    plot.add("flat", [(0, scale), (2 * scale, scale)])
    straight, flat = lines(plot)
    assert straight[1] == pytest.approx(
        [sum(axis) / 2 for axis in zip(straight[0], straight[2], strict=True)], abs=0.11
    )
    assert straight[0][1] > straight[1][1] > straight[2][1]  # upwards on the page
    assert flat[0][1] == flat[1][1] == pytest.approx(straight[0][1] * 0.75 + straight[2][1] * 0.25, abs=0.11)
    for x, y in [*straight, *flat]:
        assert 80 <= x <= 650.1 and 39.9 <= y <= 420


def test_any_text_and_no_points_are_still_svg():
    plot = LinePlot("<&>", 'x "quoted"', "y")
    plot.add("a < b & c", [])
    root = ElementTree.fromstring(plot.svg())
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert "<&>" in texts and "a < b & c" in texts and "0" in texts


def test_ticks_are_round_numbers():
    plot = LinePlot("", "", "")
    plot.add("line", [(0, 0), (7300, 0.043)])
    texts = [text.text for text in ElementTree.fromstring(plot.svg()).iter(f"{SVG}text")]
    assert {"0", "2,000", "4,000", "6,000", "8,000"} <= set(texts)
    assert {"0.01", "0.02", "0.03", "0.04", "0.05"} <= set(texts)


def test_a_plot_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path):
    with pytest.raises(ConfigError, match="nowhere"):
        LinePlot("", "", "").write(tmp_path / "nowhere" / "plot.svg")
