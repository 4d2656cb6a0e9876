"""The cost curves that come with the library: a first guess, which running steps correct."""

from __future__ import annotations

import importlib.resources
from pathlib import Path

from deepinfer.config.cost_curves import CostCurves
from deepinfer.profile.curve_timer import all_sizes, filled


def guessed_costs(max_rows: int, max_seqs: int) -> CostCurves:
    """Relative costs of steps on a CPU, of up to so many rows, and of draft passes for up to so many sequences.

    Nothing is measured. Decisions about drafts compare times, so that the unit does not matter, and the scheduler
    scales the curves by what steps take (`csrc/core/step_times.hpp`).
    """
    known = CostCurves.read(Path(str(importlib.resources.files("deepinfer") / "data" / "curves" / "cpu-guess.json")))
    return CostCurves(filled(known.step, all_sizes(max_rows)), filled(known.draft, all_sizes(max_seqs)), is_guess=True)
