"""Runs the model in few native calls; component by component while a research hook is attached."""

from __future__ import annotations

import numpy as np

from deepinfer.core.probe import Probe
from deepinfer.core.step_plan import ForwardPlan
from deepinfer.models.deepseek_v41.native_model import NativeModel
from deepinfer.worker.torch_executor import TorchExecutor


class NativeExecutor:
    """See `StepExecutor`. Both ways give the same bits, so a hook changes nothing but the time.

    Args:
        model: native form of the model.
        hooked: the same model with the same caches, for steps with hooks.
        probe: research hooks, shared with the engine.
    """

    def __init__(self, model: NativeModel, hooked: TorchExecutor, probe: Probe) -> None:
        self._model = model
        self._hooked = hooked
        self._probe = probe
        self._is_hooked = False
        self._wanted_rows = np.empty(0, dtype=np.int64)

    @property
    def vocab_size(self) -> int:
        """Columns of logits."""
        return self._hooked.vocab_size

    @property
    def calls_torch(self) -> bool:
        """See `StepExecutor`."""
        return self._probe.is_attached

    def forward(self, plan: ForwardPlan, wanted_rows: np.ndarray) -> None:
        """Run all layers; see `StepExecutor`."""
        self._is_hooked = self._probe.is_attached
        if self._is_hooked:
            self._hooked.forward(plan, wanted_rows)
            return
        self._model.calls.forward(plan, wanted_rows)
        self._wanted_rows = wanted_rows

    def logits(self, rows: np.ndarray) -> np.ndarray:
        """Logits float32 [n, vocab] of wanted rows; valid until the next call of anything."""
        if self._is_hooked:
            return self._hooked.logits(rows).numpy()
        return self._model.calls.logits(np.searchsorted(self._wanted_rows, rows))
