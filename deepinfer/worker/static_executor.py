"""Runs decode steps from static tensors and every other step component by component."""

from __future__ import annotations

import numpy as np
import torch

from deepinfer.core.device_arrays import device_arrays
from deepinfer.core.logit_rows import LogitRows
from deepinfer.core.probe import Probe
from deepinfer.core.step_executor import StepExecutor
from deepinfer.core.step_plan import ForwardPlan
from deepinfer.worker.decode_step import DecodeStep
from deepinfer.worker.static_decoder import StaticDecoder


class StaticExecutor:
    """See `StepExecutor`. While a research hook is attached the components run.

    Args:
        target: runs what has no static form.
        decoder: runs decode steps.
        probe: research hooks, shared with the engine.
    """

    def __init__(self, target: StepExecutor, decoder: StaticDecoder, probe: Probe) -> None:
        self.decoder = decoder
        self._target = target
        self._probe = probe
        self._step: DecodeStep | None = None
        self._logits: torch.Tensor | None = None

    @property
    def step(self) -> DecodeStep | None:
        """The newest forward pass, if it ran from static tensors."""
        return self._step

    @property
    def vocab_size(self) -> int:
        """Columns of logits."""
        return self._target.vocab_size

    @property
    def calls_torch(self) -> bool:
        """Whether `forward` calls torch operations."""
        return True

    @property
    def row_sizes(self) -> tuple[int, ...]:
        """What the rows of decode steps are padded to, ascending."""
        return self.decoder.row_sizes

    def takes(self, plan: ForwardPlan) -> bool:
        """Whether a step runs from static tensors. A linked one always does, as nobody but the device knows its rows: a
        hook that was attached since it was planned has to wait for the next.
        """
        return plan.kind == "decode" and (plan.previous_step_id >= 0 or not self._probe.is_attached)

    def decode(self, plan: ForwardPlan) -> DecodeStep:
        """Run all layers of a plan that it `takes`, linked ones too; rows and hidden states stay on the device."""
        self._logits, self._step = None, self.decoder.forward(plan)
        return self._step

    def forward(self, plan: ForwardPlan, wanted_rows: np.ndarray) -> None:
        """Run all layers; see `StepExecutor`."""
        if self.takes(plan):
            self.decode(plan)
        else:
            self._step = None
            self._target.forward(plan, wanted_rows)

    def logits(self, rows: np.ndarray) -> LogitRows:
        """Logits float32 [n, vocab] of wanted rows."""
        if self._step is None:
            return self._target.logits(rows)
        if self._logits is None:  # of all rows, whoever asks for which: products depend on their number
            self._logits = self.decoder.logits(self._step.hidden)
        logits = self._logits
        if np.array_equal(rows, np.arange(len(rows))):
            return logits[: len(rows)]
        return logits[device_arrays(logits.device, rows)[0]]
