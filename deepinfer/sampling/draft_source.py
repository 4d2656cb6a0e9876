"""Where the distributions of drafts that are to be judged come from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from deepinfer.sampling.proposed_draft import ProposedDraft


class DraftSource(Protocol):
    """`DraftMemory` or `DraftPool`, which say what each method does."""

    def take(self, seq_id: int, first_index: int, token_ids: Sequence[int]) -> list[ProposedDraft | None]: ...

    def drop(self, seq_ids: Iterable[int]) -> None: ...
