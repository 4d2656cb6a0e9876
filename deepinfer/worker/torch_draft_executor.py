"""Runs the draft model component by component."""

from __future__ import annotations

import numpy as np
import torch

from deepinfer.core.cache_tensors import CacheTensors
from deepinfer.core.draft_requests import DraftRequests
from deepinfer.models.deepseek_v41.draft_model import DraftBlock, DraftModel
from deepinfer.sampling.sampler import Sampler


class TorchDraftExecutor:
    """See `DraftExecutor`.

    Args:
        draft: loaded draft model.
        caches: allocated cache tensors.
        sampler: knows every sequence's parameters and keys.
        device: where the forward pass runs.
    """

    def __init__(self, draft: DraftModel, caches: CacheTensors, sampler: Sampler, device: torch.device) -> None:
        self._draft = draft
        self._caches = caches
        self._sampler = sampler
        self._device = device
        self._block: DraftBlock | None = None

    def run(self, requests: DraftRequests, num_drafts: int) -> None:
        """Run all stages; see `DraftExecutor`."""
        anchors, positions, slots = (
            torch.tensor(values, device=self._device)
            for values in (requests.anchors, requests.last_positions, requests.state_slots)
        )
        self._block = self._draft.forward(anchors, positions, slots, self._caches, num_drafts)

    def adjust(self, row: int, previous_ids: np.ndarray) -> tuple[torch.Tensor, np.ndarray]:
        """Logits of a block row given the token before it, and the score of its confidence."""
        assert self._block is not None, "run comes first"
        adjusted, scores = self._draft.adjust(self._block, row, torch.from_numpy(previous_ids).to(self._device))
        return adjusted, scores.cpu().numpy()

    def draw(self, requests: DraftRequests) -> tuple[np.ndarray, np.ndarray]:
        """The sequential loop for coupled acceptance; see `DraftExecutor`."""
        assert self._block is not None, "run comes first"
        shape = tuple(self._block.base_logits.shape[:2])
        ids, scores = np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.float32)
        previous = np.asarray(requests.anchors, dtype=np.int64)
        for row in range(shape[1]):
            adjusted, scores[:, row] = self.adjust(row, previous)
            indices = [index + row for index in requests.output_indices]
            ids[:, row] = self._sampler.draft(adjusted, requests.seq_ids, indices)
            previous = ids[:, row].copy()
        return ids, scores
