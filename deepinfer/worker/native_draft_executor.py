"""Runs the draft model in few native calls."""

from __future__ import annotations

import numpy as np

from deepinfer.core.draft_requests import DraftRequests
from deepinfer.models.deepseek_v41.native_model import NativeModel
from deepinfer.sampling.native_sampler import NativeSampler


class NativeDraftExecutor:
    """See `DraftExecutor`.

    Args:
        model: native form of the model, loaded with its draft model.
        sampler: knows every sequence's parameters and keys.
    """

    def __init__(self, model: NativeModel, sampler: NativeSampler) -> None:
        self._model = model
        self._sampler = sampler

    def run(self, requests: DraftRequests, num_drafts: int) -> None:
        """Run all stages; see `DraftExecutor`."""
        self._model.calls.run_drafts(requests.anchors, requests.last_positions, requests.state_slots, num_drafts)

    def adjust(self, row: int, previous_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Logits of a block row given the token before it (valid until the next call), and its confidence score."""
        return self._model.calls.adjust(row, previous_ids)

    def draw(self, requests: DraftRequests) -> tuple[np.ndarray, np.ndarray]:
        """The sequential loop for coupled acceptance; see `DraftExecutor`."""
        return self._model.calls.draw_drafts(self._sampler.rows, requests.seq_ids, requests.output_indices)
