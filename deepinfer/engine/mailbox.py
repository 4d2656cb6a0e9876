"""Where the outputs of one call wait until it takes them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from deepinfer.engine.prompt_scores import PromptScores
from deepinfer.outputs import RequestDelta, RequestOutput


@dataclass(slots=True, eq=False)
class Mailbox:
    """Filled by the loop, emptied by the call that owns it.

    Attributes:
        streaming: whether the call wants deltas; else it gets finished outputs only.
        deltas: in the order they came.
        finished: in the order they ended.
        scores: prompt log-probabilities by request id, for requests that asked for them.
    """

    streaming: bool
    deltas: deque[RequestDelta] = field(default_factory=deque)
    finished: deque[RequestOutput] = field(default_factory=deque)
    scores: dict[str, PromptScores | None] = field(default_factory=dict)

    @property
    def has_mail(self) -> bool:
        """Whether something waits."""
        return bool(self.deltas or self.finished)
