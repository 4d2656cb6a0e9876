"""The draft model component by component: what every executor over torch tensors shares."""

from __future__ import annotations

import numpy as np
import torch

from deepinfer.core.cache_tensors import CacheTensors
from deepinfer.core.device_arrays import device_arrays
from deepinfer.core.draft_anchors import DraftAnchors
from deepinfer.core.draft_requests import DraftRequests
from deepinfer.models.deepseek_v41.draft_model import DraftBlock, DraftModel


class DraftPass:
    """Runs the stages and keeps their block; see `DraftExecutor`.

    Args:
        draft: loaded draft model.
        caches: allocated cache tensors.
        device: where the forward pass runs.
    """

    def __init__(self, draft: DraftModel, caches: CacheTensors, device: torch.device) -> None:
        self._draft = draft
        self._caches = caches
        self._device = device
        self._block: DraftBlock | None = None

    @property
    def block(self) -> DraftBlock:
        """Of the latest `run`."""
        assert self._block is not None, "run comes first"
        return self._block

    def run(self, requests: DraftRequests, num_drafts: int) -> None:
        """Run all stages; see `DraftExecutor`."""
        rows = (requests.anchors, requests.last_positions, requests.state_slots)
        anchors = DraftAnchors(*device_arrays(self._device, *np.array(rows, dtype=np.int64)))
        self._block = self._draft.forward(anchors, self._caches, num_drafts)

    def run_padded(self, requests: DraftRequests, num_drafts: int, num_padded: int) -> None:
        """`run` for `num_padded` requests, as many as on every other rank; there may be none among them."""
        rows, count = np.zeros((4, num_padded), dtype=np.int64), len(requests)
        rows[:3, :count] = requests.anchors, requests.last_positions, requests.state_slots
        rows[3, :count] = 1
        tokens, positions, slots, is_real = device_arrays(self._device, *rows)
        block = self._draft.forward(DraftAnchors(tokens, positions, slots, is_real > 0), self._caches, num_drafts)
        self._block = DraftBlock(block.hidden[:count], block.base_logits[:count])

    def adjust(self, row: int, previous_ids: np.ndarray) -> tuple[torch.Tensor, np.ndarray]:
        """Logits of a block row given the token before it, and the score of its confidence."""
        adjusted, scores = self._draft.adjust(self.block, row, torch.from_numpy(previous_ids).to(self._device))
        return adjusted, scores.cpu().numpy()
