"""What the engine's steps give to its callers: values only."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from deepinfer.engine.prompt_scores import PromptScores
from deepinfer.outputs import RequestDelta, RequestOutput


@dataclass(slots=True)
class StepOutputs:
    """Filled by the output processor. What is handed out is taken off one by one, so that nothing is lost or given
    twice when an exception from outside breaks in.

    Attributes:
        deltas: what streaming requests got, in the order of the steps.
        finished: requests that ended.
        scores: of ended scoring requests, by request id; stands here before the request's output does.
        ended_seq_ids: sequences that the worker may forget.
        num_fed: tokens of the text that have been fed, by sequence number, for those that got new ones.
    """

    deltas: deque[RequestDelta] = field(default_factory=deque)
    finished: deque[RequestOutput] = field(default_factory=deque)
    scores: dict[str, PromptScores] = field(default_factory=dict)
    ended_seq_ids: list[int] = field(default_factory=list)
    num_fed: dict[int, int] = field(default_factory=dict)
