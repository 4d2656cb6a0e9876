"""SVG line plots: well-formed, inside their frame, to scale."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from deepinfer.bench.line_plot import LinePlot
from deepinfer.bench.plot_axis import PlotAxis
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


def test_logarithmic_axes_have_equal_steps_for_equal_factors():
    plot = LinePlot("", "", "", note="what is assumed", log_axes=True)
    plot.add("line", [(1, 0.1), (10, 1), (100, 100)], marks=True)
    ((first, second, third),) = lines(plot)
    assert second[0] - first[0] == pytest.approx(third[0] - second[0], abs=0.11)
    assert third[1] - second[1] == pytest.approx(2 * (second[1] - first[1]), abs=0.21)
    texts = [text.text for text in ElementTree.fromstring(plot.svg()).iter(f"{SVG}text")]
    assert {"0.1", "1", "10", "100", "what is assumed"} <= set(texts) and "0" not in texts


@pytest.mark.parametrize("values", [[3.0], [1.0, 256.0], [0.07, 900.0], [10.0, 10.0], [1e-9, 1e9], []])
def test_ticks_of_a_logarithmic_axis_enclose_its_values(values: list[float]):
    axis = PlotAxis.log(values)
    assert len(axis.ticks) >= 2 and list(axis.ticks) == sorted(axis.ticks)
    assert all(-1e-9 <= axis.share(value) <= 1 + 1e-9 for value in values)


def test_points_that_are_not_joined_are_dots_alone():
    plot = LinePlot("", "", "")
    plot.add("dots", [(1, 2), (3, 4)], marks=True, joined=False)
    root = ElementTree.fromstring(plot.svg())
    assert not lines(plot) and len(list(root.iter(f"{SVG}circle"))) == 2
