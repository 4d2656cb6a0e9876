"""Options of a training run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RunOptions:
    """What `train` takes.

    Attributes:
        data: folder that `prepare` made.
        out: folder for curves and the exported checkpoint.
        seconds, draft_seconds: lengths of the two runs, by time; 0 for no draft run.
        steps, draft_steps: the same by steps, where not 0.
        batch: rows a step.
        rate, draft_rate: learning rates of Muon.
        sparse_from: share of the run from which the indexer chooses what is attended to.
        anchors: blocks of drafts per row of a step.
        seed: of parameters and order of rows.
        every: steps between lines of the curve.
        compiled: compile the pieces.
        captured: replay steps as CUDA graphs.
    """

    data: Path
    out: Path
    seconds: float = 300.0
    draft_seconds: float = 80.0
    steps: int = 0
    draft_steps: int = 0
    batch: int = 64
    rate: float = 3e-3
    draft_rate: float = 4e-3
    sparse_from: float = 0.6
    anchors: int = 102
    seed: int = 1
    every: int = 20
    compiled: bool = False
    captured: bool = False
