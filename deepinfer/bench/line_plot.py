"""Line plots as SVG text; needs no plotting library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final

from deepinfer.bench.plot_axis import PlotAxis
from deepinfer.errors import ConfigError

_WIDTH: Final = 860
_HEIGHT: Final = 480
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 210, 40, 60  # margins in pixels; the legend stands at the right
_COLORS: Final = ("#1b6ca8", "#d1495b", "#2e933c", "#edae49", "#6a4c93", "#00798c", "#8d5a2b", "#777777")


class LinePlot:
    """Lines over two axes.

    Args:
        title: stands above.
        x_label, y_label: what the axes show, with units.
        note: a small line below the title: what the figures assume.
        log_axes: both axes are logarithmic; else they are linear and begin at zero.
    """

    def __init__(self, title: str, x_label: str, y_label: str, *, note: str = "", log_axes: bool = False) -> None:
        self._titles = (title, note)
        self._labels = (x_label, y_label)
        self._make_axis = PlotAxis.log if log_axes else PlotAxis.linear
        self._least = math.ulp(0.0) if log_axes else 0.0
        self._lines: list[tuple[str, list[tuple[float, float]], bool, bool]] = []

    def add(
        self, name: str, points: Sequence[tuple[float, float]], *, marks: bool = False, joined: bool = True
    ) -> None:
        """Finite points (x, y), none negative (on logarithmic axes all above zero), in their order.

        Args:
            name: in the legend.
            points: of a line.
            marks: a dot on each point.
            joined: a line through the points.
        """
        assert all(math.isfinite(value) and value >= self._least for point in points for value in point), name
        self._lines.append((name, list(points), marks, joined))

    def svg(self) -> str:
        """The whole file's text."""
        x_axis, y_axis = (self._axis(axis) for axis in (0, 1))
        body = [*self._axes(x_axis, y_axis)]
        for number, (name, points, marks, joined) in enumerate(self._lines):
            color = _COLORS[number % len(_COLORS)]
            dashes = "" if number < len(_COLORS) else ' stroke-dasharray="6 3"'
            places = [(_x(x_axis.share(x)), _y(y_axis.share(y))) for x, y in points]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            if joined:
                body.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.8"{dashes}/>')
            if marks:
                body += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" fill="{color}"/>' for x, y in places]
            top = _TOP + 10 + 20 * number
            left = _WIDTH - _RIGHT + 14
            body.append(f'<line x1="{left}" x2="{left + 22}" y1="{top}" y2="{top}" stroke="{color}"{dashes}/>')
            body.append(_text(left + 28, top + 4, name, "start"))
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif">'
        return "\n".join([head, f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>', *body, "</svg>", ""])

    def write(self, path: Path) -> None:
        """The text into a file, which is replaced. ConfigError when it cannot be written."""
        try:
            path.write_text(self.svg(), encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"the plot cannot be written to {str(path)!r} ({error})") from error

    def _axis(self, axis: int) -> PlotAxis:
        return self._make_axis(point[axis] for _, points, _, _ in self._lines for point in points)

    def _axes(self, x_axis: PlotAxis, y_axis: PlotAxis) -> list[str]:
        title, note = self._titles
        parts = [
            _text(_x(0.5), 20, title, "middle", 'font-size="15"'),
            _text(_x(0.5), _HEIGHT - 14, self._labels[0], "middle"),
        ]
        if note:
            parts.append(_text(_WIDTH / 2, 35, note, "middle", 'font-size="10"'))
        turned = f'font-size="12" transform="rotate(-90 20 {_y(0.5):.0f})"'
        parts.append(_text(20, _y(0.5), self._labels[1], "middle", turned))
        for value in x_axis.ticks:
            x = _x(x_axis.share(value))
            parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_y(0)}" y2="{_y(1)}" stroke="#e4e4e4"/>')
            parts.append(_text(x, _y(0) + 18, f"{value:,.10g}", "middle"))
        for value in y_axis.ticks:
            y = _y(y_axis.share(value))
            parts.append(f'<line x1="{_x(0)}" x2="{_x(1)}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e4e4e4"/>')
            parts.append(_text(_x(0) - 8, y + 4, f"{value:,.10g}", "end"))
        return parts


def _x(share: float) -> float:
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def _y(share: float) -> float:
    return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def _text(x: float, y: float, text: str, anchor: str, style: str = 'font-size="12"') -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {style}>{escape(text)}</text>'
