"""One message from the front end to a worker process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from deepinfer.engine.packed_request import PackedRequest

CommandKind = Literal["add", "wake", "abort", "ask", "close"]


@dataclass(frozen=True, slots=True)
class WorkerCommand:
    """Carried out between steps, in the order of sending.

    Attributes:
        kind: "add": queue `request`; "wake": some rank got its `value`-th request since the start; "abort": end the
            requests `value`, a list of ids; "ask": answer the question `value` ("stats", "grammar" about `request`,
            "begin trace", "end trace"); "close": end the process.
        value: see `kind`.
        request: see `kind`.
        prompt: text of its prompt, where one was given.
        prompt_index: place of the prompt in its call.
        streaming: whether the call wants deltas.
    """

    kind: CommandKind
    value: Any = None
    request: PackedRequest | None = None
    prompt: str | None = None
    prompt_index: int = 0
    streaming: bool = False
