"""A call of a tool that the model asked for."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One entry of `CompletionOutput.tool_calls`.

    Attributes:
        id: unique among the calls of one LLM; a tool message answers with it in ``tool_call_id``.
        name: of the tool.
        arguments: JSON text of an object; cut off when the completion was (finish_reason "length").
    """

    id: str
    name: str
    arguments: str

    def parsed_arguments(self) -> dict[str, Any]:
        """The arguments as Python values. Raises ValueError when their text is no JSON object."""
        value = json.loads(self.arguments)
        if not isinstance(value, dict):
            raise ValueError(f"the arguments of {self.name!r} are no JSON object: {self.arguments!r}")
        return value

    def to_dict(self) -> dict[str, str]:
        """JSON-safe."""
        return asdict(self)
