"""Draws decode steps of two traces, one without overlap and one with it, as an SVG: what host and device do at a time.

    deepinfer trace plain.json --no-overlap --batch 1 --steps 100 --num-threads 1
    deepinfer trace overlapped.json --overlap --batch 1 --steps 100 --num-threads 1
    python bench/step_picture.py plain.json overlapped.json doc/figures/zos.svg

From each file it takes successive decode steps whose times are next to the median, and draws them on one scale of time.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from deepinfer.profile.span import Span
from deepinfer.profile.step_trace import StepTrace

WIDTH: Final = 960  # of the time's axis, pixels
LEFT: Final = 70
BAR: Final = 26
PANEL: Final = 120
LEGEND: Final = 26
STEPS_SHOWN: Final = 2.6  # of the slower loop
STEPS_COMPARED: Final = 4  # with the median: one before the first of interest
COLORS: Final = {
    "schedule": "#4e79a7",
    "launch forward": "#f28e2b",
    "launch sample": "#f28e2b",
    "update": "#59a14f",
    "emit": "#76b7b2",
    "wait": "#e3e3e3",
    "execute": "#e3e3e3",
}
DEVICE_COLORS: Final = ("#b07aa1", "#9c755f", "#e15759")  # steps take turns
LEGEND_TEXTS: Final = (
    ("schedule", "schedule"),
    ("launch sample", "launch"),
    ("update", "update"),
    ("emit", "emit"),
    ("wait", "wait for the device"),
)


def decode_steps(trace: StepTrace) -> list[tuple[int, int, int]]:
    """(step number, begin, end) on the device, in order."""
    parts: dict[int, list[Span]] = {}
    for span in trace.spans:
        if span.lane == "device" and span.details.get("kind") == "decode":
            parts.setdefault(span.details["step_id"], []).append(span)
    whole = [(number, min(s.begin for s in two), max(s.end for s in two)) for number, two in parts.items()]
    return sorted(whole, key=lambda step: step[1])


def typical(trace: StepTrace) -> tuple[int, float]:
    """When typical decode steps begin on the device, and the median time from a step's end to the next one's.

    Raises SystemExit when the trace has too few.
    """
    steps = decode_steps(trace)
    if len(steps) <= STEPS_COMPARED:
        raise SystemExit("a trace needs five decode steps at least: deepinfer trace FILE --steps 20")
    times = [(after[2] - before[2], after[1]) for before, after in zip(steps, steps[1:], strict=False)]
    median = statistics.median(time for time, _ in times)
    windows = [times[i : i + STEPS_COMPARED] for i in range(len(times) - STEPS_COMPARED + 1)]
    best = min(windows, key=lambda window: sum(abs(time - median) for time, _ in window))
    return best[1][1], median


def bar(span: Span, begin: int, scale: float, place: tuple[int, str, str]) -> Iterator[str]:
    """A rectangle at (top, color, text); the text where it has room."""
    top, color, text = place
    left = max((span.begin - begin) * scale, 0.0)
    width = min((span.end - begin) * scale, WIDTH) - left
    if width <= 0 or left >= WIDTH:
        return
    title = f"{span.name}, step {span.details.get('step_id')}: {(span.end - span.begin) / 1e3:.0f} us"
    yield (
        f'<rect x="{LEFT + left:.1f}" y="{top}" width="{max(width, 0.5):.1f}" height="{BAR}" fill="{color}"'
        f' fill-opacity="{0.55 if span.name == "sample" else 1}">'
        f"<title>{escape(title)}</title></rect>"
    )
    if width > 6 * len(text):
        yield f'<text x="{LEFT + left + width / 2:.1f}" y="{top + 17}" text-anchor="middle">{escape(text)}</text>'


def panel(trace: StepTrace, title: str, top: int, shown: float) -> Iterator[str]:
    """Two rows of bars over `shown` nanoseconds, around typical steps."""
    start, median = typical(trace)
    begin, scale = int(start - 0.25 * shown), WIDTH / shown
    first = min(number for number, _, end in decode_steps(trace) if end > begin)
    yield f'<text x="0" y="{top + 12}" font-weight="bold">{escape(title)}: {median / 1e3:.0f} us a step</text>'
    for row, name in enumerate(("host", "device")):
        yield f'<text x="0" y="{top + 38 + row * (BAR + 8)}">{name}</text>'
    for span in trace.spans:
        number = span.details.get("step_id", 0)
        sign = number - first
        label = "N" if sign == 0 else f"N{sign:+d}"
        if span.lane == "host" and span.name in COLORS:
            text = "wait" if span.name in ("wait", "execute") else ""
            yield from bar(span, begin, scale, (top + 20, COLORS[span.name], f"{text} {label}".strip()))
        elif span.lane == "device":
            color = DEVICE_COLORS[number % len(DEVICE_COLORS)]
            yield from bar(span, begin, scale, (top + 28 + BAR, color, f"{span.name} {label}"))


def legend(top: int) -> Iterator[str]:
    for place, (name, text) in enumerate(LEGEND_TEXTS):
        left = LEFT + place * 130
        yield f'<rect x="{left}" y="{top}" width="14" height="14" fill="{COLORS[name]}"/>'
        yield f'<text x="{left + 20}" y="{top + 12}">{text}</text>'


def picture(plain: StepTrace, overlapped: StepTrace) -> str:
    """The whole SVG."""
    shown = STEPS_SHOWN * max(typical(trace)[1] for trace in (plain, overlapped))
    lines = [*panel(plain, "without overlap", 0, shown), *panel(overlapped, "with overlap", PANEL, shown)]
    lines += legend(2 * PANEL)
    width, height = LEFT + WIDTH + 10, 2 * PANEL + LEGEND
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif"'
    return "\n".join([f'{head} font-size="12">', '<rect width="100%" height="100%" fill="white"/>', *lines, "</svg>\n"])


if __name__ == "__main__":
    *files, output = map(Path, sys.argv[1:])
    one, other = (StepTrace.read(file) for file in files)
    output.parent.mkdir(exist_ok=True)
    output.write_text(picture(one, other), encoding="utf-8")
