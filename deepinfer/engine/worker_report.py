"""One message from a worker process to the front end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from deepinfer.engine.prompt_scores import PromptScores
from deepinfer.outputs import RequestDelta, RequestOutput

ReportKind = Literal["ready", "outputs", "answer", "failed"]


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """Sent between steps.

    Attributes:
        kind: "ready": `value` is a `WorkerReady`; "outputs": of one or more steps; "answer": `value` answers the oldest
            open question; "failed": `value` is a `WorkerFailure`, and nothing follows.
        value: see `kind`.
        deltas: what streaming requests got.
        finished: requests that ended.
        scores: of ended scoring requests, by request id.
    """

    kind: ReportKind
    value: Any = None
    deltas: list[RequestDelta] = field(default_factory=list)
    finished: list[RequestOutput] = field(default_factory=list)
    scores: dict[str, PromptScores] = field(default_factory=dict)
