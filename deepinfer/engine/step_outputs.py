"""What one engine step gives to its callers: values only."""

from __future__ import annotations

from dataclasses import dataclass, field

from deepinfer.engine.prompt_scores import PromptScores
from deepinfer.outputs import RequestDelta, RequestOutput


@dataclass(slots=True)
class StepOutputs:
    """Filled by the output processor.

    Attributes:
        deltas: what streaming requests got, in the order of the step.
        finished: requests that ended.
        scores: of ended scoring requests, by request id.
        ended_seq_ids: sequences that the worker may forget.
        num_fed: tokens of the text that have been fed, by sequence number, for those that got new ones.
    """

    deltas: list[RequestDelta] = field(default_factory=list)
    finished: list[RequestOutput] = field(default_factory=list)
    scores: dict[str, PromptScores] = field(default_factory=dict)
    ended_seq_ids: list[int] = field(default_factory=list)
    num_fed: dict[int, int] = field(default_factory=dict)

    def extend(self, other: StepOutputs) -> None:
        """Append what `other` holds."""
        self.deltas += other.deltas
        self.finished += other.finished
        self.scores |= other.scores
        self.ended_seq_ids += other.ended_seq_ids
