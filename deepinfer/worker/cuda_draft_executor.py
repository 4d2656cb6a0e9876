"""Runs the draft model on a GPU: the sequential loop of its heads without the host."""

from __future__ import annotations

import numpy as np
import torch

from deepinfer.core.cache_tensors import CacheTensors
from deepinfer.core.device_arrays import device_arrays
from deepinfer.core.draft_requests import DraftRequests
from deepinfer.models.deepseek_v41.draft_model import DraftBlock, DraftModel
from deepinfer.sampling.cuda_sampler import CudaSampler


class CudaDraftExecutor:
    """See `DraftExecutor`.

    Args:
        draft: loaded draft model.
        caches: allocated cache tensors.
        sampler: knows every sequence's parameters and keys.
        device: where the forward pass runs.
    """

    def __init__(self, draft: DraftModel, caches: CacheTensors, sampler: CudaSampler, device: torch.device) -> None:
        self._draft = draft
        self._caches = caches
        self._sampler = sampler
        self._device = device
        self._block: DraftBlock | None = None

    def run(self, requests: DraftRequests, num_drafts: int) -> None:
        """Run all stages; see `DraftExecutor`."""
        rows = (requests.anchors, requests.last_positions, requests.state_slots)
        anchors, positions, slots = device_arrays(self._device, *np.array(rows, dtype=np.int64))
        self._block = self._draft.forward(anchors, positions, slots, self._caches, num_drafts)

    def adjust(self, row: int, previous_ids: np.ndarray) -> tuple[torch.Tensor, np.ndarray]:
        """Logits of a block row given the token before it, and the score of its confidence."""
        assert self._block is not None, "run comes first"
        adjusted, scores = self._draft.adjust(self._block, row, torch.from_numpy(previous_ids).to(self._device))
        return adjusted, scores.cpu().numpy()

    def draw(self, requests: DraftRequests) -> tuple[np.ndarray, np.ndarray]:
        """The sequential loop for coupled acceptance; see `DraftExecutor`. One transfer, at its end."""
        assert self._block is not None, "run comes first"
        rules = self._sampler.rules(requests.seq_ids, requests.output_indices)
        (previous,) = device_arrays(self._device, np.array(requests.anchors, dtype=np.int64))
        ids, scores = [], []
        for row in range(self._block.base_logits.shape[1]):
            adjusted, row_scores = self._draft.adjust(self._block, row, previous)
            previous = self._sampler.draft(adjusted, rules, row)
            ids.append(previous)
            scores.append(row_scores)
        # Both are exact in float64.
        both = torch.stack([column.to(torch.float64) for column in (*ids, *scores)], dim=1).cpu().numpy()
        return both[:, : len(ids)].astype(np.int64), both[:, len(ids) :].astype(np.float32)
