"""How the output side ends a sequence whose text met a stop string: the only thing it may tell the scheduler."""

from __future__ import annotations

from typing import Protocol


class SequenceFinisher(Protocol):
    """Implemented by the scheduler."""

    def finish(self, seq_id: int, keep_tokens: int) -> bool:
        """End a sequence with its first `keep_tokens` new tokens; False when it has ended already."""
        ...
