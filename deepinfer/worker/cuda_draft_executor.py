"""Runs the draft model on a GPU: the sequential loop of its heads without the host."""

from __future__ import annotations

import numpy as np
import torch

from deepinfer.core.cache_tensors import CacheTensors
from deepinfer.core.device_arrays import device_arrays
from deepinfer.core.draft_requests import DraftRequests
from deepinfer.models.deepseek_v41.draft_model import DraftModel
from deepinfer.sampling.cuda_sampler import CudaSampler
from deepinfer.worker.draft_pass import DraftPass


class CudaDraftExecutor(DraftPass):
    """See `DraftExecutor` and `DraftPass`.

    Args:
        sampler: knows every sequence's parameters and keys.
    """

    def __init__(self, draft: DraftModel, caches: CacheTensors, sampler: CudaSampler, device: torch.device) -> None:
        super().__init__(draft, caches, device)
        self._sampler = sampler

    def draw(self, requests: DraftRequests) -> tuple[np.ndarray, np.ndarray]:
        """The sequential loop for coupled acceptance; see `DraftExecutor`. One transfer, at its end."""
        rules = self._sampler.rules(requests.seq_ids, requests.output_indices)
        (previous,) = device_arrays(self._device, np.array(requests.anchors, dtype=np.int64))
        ids, scores = [], []
        for row in range(self.block.base_logits.shape[1]):
            adjusted, row_scores = self._draft.adjust(self.block, row, previous)
            previous = self._sampler.draft(adjusted, rules, row)
            ids.append(previous)
            scores.append(row_scores)
        # Both are exact in float64.
        both = torch.stack([column.to(torch.float64) for column in (*ids, *scores)], dim=1).cpu().numpy()
        return both[:, : len(ids)].astype(np.int64), both[:, len(ids) :].astype(np.float32)
