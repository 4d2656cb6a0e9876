"""What one step added to a tool call, for streaming."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """One entry of `RequestDelta.tool_calls`. The argument pieces of one index, joined, are the call's arguments.

    Attributes:
        index: number of the call within its completion.
        id: set on a call's first delta, else None.
        name: set on a call's first delta, else None.
        arguments: new piece of the JSON text, may be empty.
    """

    index: int
    id: str | None
    name: str | None
    arguments: str

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return asdict(self)
