"""Who runs the model for a step: the boundary between the runner and a backend."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from deepinfer.core.logit_rows import LogitRows
from deepinfer.core.step_plan import ForwardPlan


class StepExecutor(Protocol):
    """One model with its caches. One step at a time: hidden states belong to the newest forward pass."""

    @property
    def vocab_size(self) -> int:
        """Columns of logits."""
        ...

    @property
    def calls_torch(self) -> bool:
        """Whether a forward pass would use torch operations now, which settings of the calling program reach."""
        ...

    def forward(self, plan: ForwardPlan, wanted_rows: np.ndarray) -> None:
        """Run all layers over the plan's rows and update the caches; keeps the hidden states of some rows.

        Args:
            plan: the step; its cache copies have been made.
            wanted_rows: int64 [L], ascending.
        """
        ...

    def logits(self, rows: np.ndarray) -> LogitRows:
        """Logits float32 [n, vocab] of wanted rows int64 [n], by their numbers in the step; any order, also twice."""
        ...
