"""What `LLM.capture` records: named tensors per request (with n > 1: per choice) and position."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch


class Tap:
    """Collects rows of named tensors (implements `core.probe.TensorSink`).

    Rows that are computed again (a preempted sequence recomputes its past) overwrite the earlier ones.
    Recorded tensors are copies on the CPU in the dtype the model computed them in.
    """

    def __init__(
        self,
        current_rows: Callable[[], tuple[np.ndarray, np.ndarray]],
        request_id_of: Callable[[int], str | None],
    ) -> None:
        """Args:
        current_rows: sequence number int64 [rows] and position int64 [rows] of every row of the running step.
        request_id_of: public id of a sequence number, None when it is no longer known. With n > 1 choice 0 has the
            prompt and its own tokens; choice j is filed as "<request id>#<j>", from its first own token on.
        """
        self._current_rows = current_rows
        self._request_id_of = request_id_of
        self._request_ids: dict[int, str] = {}
        self._num_fed: dict[str, int] = {}
        self._chunks: dict[str, dict[str, list[tuple[np.ndarray, torch.Tensor]]]] = {}

    def record(self, name: str, tensor: torch.Tensor, rows: torch.Tensor | None) -> None:
        """Take `tensor` [n, ...], aligned with the step's rows, or with `rows` int64 [n] when given."""
        seq_ids, positions = self._current_rows()
        if rows is not None:
            index = rows.detach().cpu().numpy()
            seq_ids, positions = seq_ids[index], positions[index]
        values = tensor.detach().to("cpu", copy=True)
        by_request = self._chunks.setdefault(name, {})
        for seq_id in np.unique(seq_ids).tolist():
            request_id = self._request_id_of(seq_id)
            if request_id is None:
                continue
            self._request_ids[seq_id] = request_id
            picked = np.flatnonzero(seq_ids == seq_id)
            chunk = (positions[picked].copy(), values[torch.from_numpy(picked)])
            by_request.setdefault(request_id, []).append(chunk)

    def end_step(self, num_fed: Mapping[int, int]) -> None:
        """Note how many tokens of each sequence number have been fed; rows of wrong drafts stand behind them."""
        for seq_id, number in num_fed.items():
            if seq_id in self._request_ids:
                self._num_fed[self._request_ids[seq_id]] = number

    def names(self) -> list[str]:
        """Names of everything recorded, sorted."""
        return sorted(self._chunks)

    def unmatched(self, patterns: Sequence[str]) -> list[str]:
        """Those of the patterns that no recorded name matches."""
        names = self.names()
        return [pattern for pattern in patterns if not any(fnmatch.fnmatchcase(name, pattern) for name in names)]

    def __getitem__(self, name: str) -> dict[str, torch.Tensor]:
        """Per request id: the tensor [num_positions, ...], ascending by position; KeyError for an unknown name."""
        return {request_id: self._merged(name, request_id)[1] for request_id in self._chunks[name]}

    def tensor(self, name: str, request_id: str) -> torch.Tensor:
        """One request's tensor [num_positions, ...], ascending by position."""
        return self._merged(name, request_id)[1]

    def positions(self, name: str, request_id: str) -> np.ndarray:
        """Positions int64 [num_positions] of `tensor`'s rows, ascending."""
        return self._merged(name, request_id)[0]

    def _merged(self, name: str, request_id: str) -> tuple[np.ndarray, torch.Tensor]:
        chunks = self._chunks[name][request_id]
        if len(chunks) > 1 or not np.all(np.diff(chunks[0][0]) > 0):
            positions = np.concatenate([chunk[0] for chunk in chunks])
            values = torch.cat([chunk[1] for chunk in chunks])
            # The last row of a position is the valid one: look for its first occurrence from behind.
            unique, last = np.unique(positions[::-1], return_index=True)
            chunks[:] = [(unique, values[torch.from_numpy(len(positions) - 1 - last)])]
        positions, values = chunks[0]
        count = int(np.searchsorted(positions, self._num_fed.get(request_id, np.iinfo(np.int64).max)))
        return positions[:count], values[:count]
