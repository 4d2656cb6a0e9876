"""Recorded routing of the evaluation set: decode steps of the bundled model (`official`, greedy, 32 rows at a time)."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def eval_routing() -> np.ndarray:
    """Tokens of each expert, int64 [steps, layers, experts]: [181, 8, 16]."""
    with np.load(Path(__file__).with_name("eval_routing.npz")) as file:
        return file["loads"].astype(np.int64)
