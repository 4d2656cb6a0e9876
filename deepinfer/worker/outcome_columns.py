"""A step's outcome as one table: one transfer between the device and the host, either way."""

from __future__ import annotations

import numpy as np
import torch

from deepinfer.core.device_outcome import DeviceOutcome


class OutcomeColumns:
    """The columns of `outcome` on their way: the number of new tokens, G + 1 tokens, G drafts, G confidences.

    Sampling and the draft pass write them.
    """

    def __init__(self, outcome: DeviceOutcome) -> None:
        self._outcome = outcome
        self._num_drafts = outcome.draft_ids.shape[1]
        self._table = table = outcome.columns
        self._host = torch.zeros(table.shape, dtype=table.dtype, pin_memory=table.device.type == "cuda")
        self._values = self._host.numpy()

    def send(self, num_seqs: int) -> None:
        """Launch the transfer of the first rows to the host."""
        self._host[:num_seqs].copy_(self._table[:num_seqs], non_blocking=True)

    def read(self, num_seqs: int) -> tuple[list[list[int]], np.ndarray, np.ndarray]:
        """New tokens, drafts int32 [S, G] and confidences float32 [S, G], once the transfer has ended; no torch."""
        table, num_drafts = self._values[:num_seqs], self._num_drafts
        rows: list[list[int]] = table[:, 1 : num_drafts + 2].astype(np.int64).tolist()
        new = [row[: int(count)] for row, count in zip(rows, table[:, 0].tolist(), strict=True)]
        drafts, confidences = np.split(table[:, num_drafts + 2 :], 2, axis=1)
        return new, drafts.astype(np.int32), confidences.astype(np.float32)

    def store(self, new: list[list[int]], draft_ids: np.ndarray | None, confidences: np.ndarray | None) -> None:
        """Launch the way back of what the host has made of a step: into the outcome itself.

        The transfers before have ended.
        """
        values, num_drafts = self._values[: len(new)], self._num_drafts
        values[:, 1 : num_drafts + 2] = -1
        for s, row in enumerate(new):
            values[s, 0], values[s, 1 : 1 + len(row)] = len(row), row
        values[:, num_drafts + 2 : 2 * num_drafts + 2] = -1 if draft_ids is None else draft_ids
        values[:, 2 * num_drafts + 2 :] = 0.0 if confidences is None else confidences
        table, outcome = self._table[: len(new)], self._outcome
        table.copy_(self._host[: len(new)], non_blocking=True)
        targets = (outcome.num_tokens, outcome.tokens, outcome.draft_ids, outcome.confidences)
        for target, part in zip(targets, self._parts(table), strict=True):
            target[: len(new)].copy_(part)

    def _parts(self, table: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Views: counts [n], tokens [n, G + 1], drafts [n, G], confidences [n, G]."""
        counts, tokens, drafts, confidences = table.split((1, self._num_drafts + 1, *[self._num_drafts] * 2), dim=1)
        return counts[:, 0], tokens, drafts, confidences
