"""Runs the draft model component by component."""

from __future__ import annotations

import numpy as np
import torch

from deepinfer.core.cache_tensors import CacheTensors
from deepinfer.core.draft_requests import DraftRequests
from deepinfer.models.deepseek_v41.draft_model import DraftModel
from deepinfer.sampling.sampler import Sampler
from deepinfer.worker.draft_pass import DraftPass


class TorchDraftExecutor(DraftPass):
    """See `DraftExecutor` and `DraftPass`.

    Args:
        sampler: knows every sequence's parameters and keys.
    """

    def __init__(self, draft: DraftModel, caches: CacheTensors, sampler: Sampler, device: torch.device) -> None:
        super().__init__(draft, caches, device)
        self._sampler = sampler

    def draw(self, requests: DraftRequests) -> tuple[np.ndarray, np.ndarray]:
        """The sequential loop for coupled acceptance; see `DraftExecutor`."""
        shape = tuple(self.block.base_logits.shape[:2])
        ids, scores = np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.float32)
        previous = np.asarray(requests.anchors, dtype=np.int64)
        for row in range(shape[1]):
            adjusted, scores[:, row] = self.adjust(row, previous)
            indices = [index + row for index in requests.output_indices]
            ids[:, row] = self._sampler.draft(adjusted, requests.seq_ids, indices)
            previous = ids[:, row].copy()
        return ids, scores
