"""Draws reliability diagrams. The only import site of matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from deepinfer.engine.draft_calibration import DraftCalibration
from deepinfer.errors import ConfigError, UnsupportedFeatureError

PLOT_ENDINGS: Final = (".svg", ".png", ".pdf")


def require_matplotlib() -> None:
    """Raise UnsupportedFeatureError, that says what to install, where it is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise UnsupportedFeatureError("plots need matplotlib: pip install 'deepinfer[plot]'") from error


def draw_reliability(calibration: DraftCalibration, path: Path) -> None:
    """Share of accepted drafts against their confidence, a line for each position; the diagonal is perfect.

    Args:
        calibration: judged drafts.
        path: one of `PLOT_ENDINGS`; an existing file is replaced.
    """
    require_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 5), layout="constrained")
    axes = figure.add_subplot()
    axes.plot((0, 1), (0, 1), color="grey", linestyle=":")
    for k in range(calibration.num_drafts):
        filled = [(mean, share) for number, mean, share in calibration.position(k).bins() if number]
        error = calibration.position(k).expected_error()
        if error is not None:
            axes.plot(*zip(*filled, strict=True), marker="o", label=f"draft {k + 1} (error {error:.1%})")
    axes.set(xlabel="confidence", ylabel="accepted", xlim=(0, 1), ylim=(0, 1), title="Reliability of drafts")
    axes.legend()
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"the plot cannot be written to {str(path)!r} ({error})") from error
