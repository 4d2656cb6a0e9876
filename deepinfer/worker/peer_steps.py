"""A rank's part in steps whose collectives other ranks meet in: who drafts, and what those do who have nothing."""

from __future__ import annotations

import numpy as np

from deepinfer.core.draft_executor import DraftExecutor
from deepinfer.core.draft_requests import DraftRequests
from deepinfer.core.logit_rows import LogitRows
from deepinfer.distributed.rank_comm import RankComm
from deepinfer.models.deepseek_v41.model import DeepSeekV41Model


class PeerSteps:
    """Stands before the draft executor: a draft pass is one of all ranks. Every step ends with `end_step`, which sees
    to it that this rank has said whether it drafts, and takes part in the others' pass if it does not.

    Args:
        model: loaded target model with its draft model.
        comm: the ranks that step together.
        drafts: runs the draft model; None with drafts off.
    """

    def __init__(self, model: DeepSeekV41Model, comm: RankComm, drafts: DraftExecutor | None) -> None:
        self._model = model
        self._comm = comm
        self._executor = drafts
        self._has_drafted = False

    def take_part(self) -> None:
        """In a forward pass that this rank has no rows of."""
        self._model.take_part()

    def end_step(self) -> None:
        """Behind sampling, in every step."""
        if self._executor is not None and not self._has_drafted and self._somebody_drafts(False):
            assert self._model.draft is not None
            self._model.draft.take_part()
        self._has_drafted = False

    def run(self, requests: DraftRequests, num_drafts: int) -> None:
        """See `DraftExecutor`."""
        self._has_drafted = self._somebody_drafts(True)
        self._drafts.run(requests, num_drafts)

    def adjust(self, row: int, previous_ids: np.ndarray) -> tuple[LogitRows, np.ndarray]:
        """See `DraftExecutor`."""
        return self._drafts.adjust(row, previous_ids)

    def draw(self, requests: DraftRequests) -> tuple[np.ndarray, np.ndarray]:
        """See `DraftExecutor`."""
        return self._drafts.draw(requests)

    @property
    def _drafts(self) -> DraftExecutor:
        assert self._executor is not None, "drafts are off"
        return self._executor

    def _somebody_drafts(self, own: bool) -> bool:
        return bool(self._comm.gather_numbers([int(own)]).any())
