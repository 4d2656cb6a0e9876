"""Runs the model component by component, over the ops of any backend and with every research hook."""

from __future__ import annotations

import numpy as np
import torch

from deepinfer.core.cache_tensors import CacheTensors
from deepinfer.core.probe import Probe
from deepinfer.core.step_plan import ForwardPlan
from deepinfer.models.deepseek_v41.model import DeepSeekV41Model
from deepinfer.worker.batch_builder import build_batch


class TorchExecutor:
    """See `StepExecutor`.

    Args:
        model: loaded target model.
        caches: allocated cache tensors.
        probe: research hooks, shared with the engine.
        device: where the forward pass runs.
    """

    def __init__(self, model: DeepSeekV41Model, caches: CacheTensors, probe: Probe, device: torch.device) -> None:
        config = model.runtime.config
        self._model = model
        self._caches = caches
        self._probe = probe
        self._device = device
        self._num_ngrams = config.engram_max_ngram_size if config.has_engram else 0
        self._wanted_rows = np.empty(0, dtype=np.int64)
        self._hidden = torch.empty(0)

    @property
    def vocab_size(self) -> int:
        """Columns of logits."""
        return self._model.vocab_size

    @property
    def calls_torch(self) -> bool:
        """See `StepExecutor`."""
        return True

    def forward(self, plan: ForwardPlan, wanted_rows: np.ndarray) -> None:
        """Run all layers; see `StepExecutor`."""
        batch = build_batch(plan, wanted_rows, self._num_ngrams, self._device)
        groups = self._model.runtime.groups
        is_split = groups is not None and groups.split.is_on
        batches = batch.halves(wanted_rows) if is_split else (batch,)
        shares_rows = plan.kind == "prefill"  # a decode step has few rows: every rank computes them all
        self._hidden = self._model.forward(batches, self._caches, self._probe, shares_rows=shares_rows)
        self._wanted_rows = wanted_rows

    def logits(self, rows: np.ndarray) -> torch.Tensor:
        """Logits float32 [n, vocab] of wanted rows."""
        places = torch.from_numpy(np.searchsorted(self._wanted_rows, rows)).to(self._device)
        return self._model.logits(self._hidden[places])
