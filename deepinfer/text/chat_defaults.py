"""How a checkpoint wants to be talked to: ``chat_defaults`` of its generation_config.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deepinfer.shown_value import shown_value


@dataclass(frozen=True, slots=True)
class ChatDefaults:
    """Used where a call leaves the choice open.

    Attributes:
        thinking: whether answers start with reasoning.
        effort: reasoning effort; None: the prompt format's own.
    """

    thinking: bool = True
    effort: str | None = None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any] | None) -> ChatDefaults:
        """Parse ``{"thinking": bool, "effort": str}``; None means class defaults. Raises ValueError for others."""
        if data is None:
            return cls()
        if not isinstance(data, Mapping) or not set(data) <= {"thinking", "effort"}:
            raise ValueError(f"chat_defaults={shown_value(data)}: expected an object with thinking and effort only")
        thinking, effort = data.get("thinking", True), data.get("effort")
        if not isinstance(thinking, bool) or not (effort is None or isinstance(effort, str)):
            raise ValueError(f"chat_defaults={shown_value(data)}: thinking must be true or false, effort a text")
        return cls(thinking, effort)
