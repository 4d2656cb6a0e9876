"""Runs the draft model on a GPU for the host: the sequential loop of its heads in one go."""

from __future__ import annotations

import numpy as np
import torch

from deepinfer.core.cache_tensors import CacheTensors
from deepinfer.core.device_arrays import device_arrays
from deepinfer.core.draft_requests import DraftRequests
from deepinfer.models.deepseek_v41.draft_model import DraftModel
from deepinfer.sampling.cuda_sampler import CudaSampler
from deepinfer.sampling.row_rules import INDEX_WORD
from deepinfer.sampling.row_words import RowWords
from deepinfer.sampling.step_rules import RULE_WIDTH, StepRules
from deepinfer.sampling.step_sampler import StepSampler
from deepinfer.worker.draft_loop import draft_loop
from deepinfer.worker.draft_pass import DraftPass


class CudaDraftExecutor(DraftPass):
    """See `DraftExecutor` and `DraftPass`.

    Args:
        sampler: knows every sequence's parameters and keys.
    """

    def __init__(self, draft: DraftModel, caches: CacheTensors, sampler: CudaSampler, device: torch.device) -> None:
        super().__init__(draft, caches, device)
        self._sampler = sampler
        self._draws = StepSampler(sampler.num_ids, sampler.pool)

    def draw(self, requests: DraftRequests) -> tuple[np.ndarray, np.ndarray]:
        """The sequential loop, for either acceptance rule; see `DraftExecutor`. One transfer, at its end.

        For acceptance by rejection, the distributions go into the sampler's pool.
        """
        values = np.empty((len(requests), RULE_WIDTH), dtype=np.int64)
        indices = np.array(requests.output_indices, dtype=np.int64)
        _, kinds = self._sampler.fill_rules(requests.seq_ids, indices, values)
        moved, anchors = device_arrays(self._device, values, np.array(requests.anchors, dtype=np.int64))
        rules, pool, num_drafts = StepRules(moved), self._sampler.pool, self.block.base_logits.shape[1]
        places = torch.where(rules.pool_slots >= 0, rules.pool_slots * num_drafts, -1)
        first = (RowWords(rules.words.contiguous(), kinds), places)
        ids, kept, scores = draft_loop(self._draft, self.block, self._draws, anchors, first)
        if pool is not None and kinds.draws:
            pool.store(rules, rules.pool_slots >= 0, rules.values[:, INDEX_WORD], kept)
            pool.note_pass()
        # Both are exact in float64.
        both = torch.cat((ids.to(torch.float64), scores.to(torch.float64)), dim=1).cpu().numpy()
        return both[:, :num_drafts].astype(np.int64), both[:, num_drafts:].astype(np.float32)
