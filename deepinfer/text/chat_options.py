"""How a conversation is put into a prompt."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """Options of one `LLM.chat` call.

    Attributes:
        tools: OpenAI-style function tools; None or empty for none.
        thinking: whether the answer starts with reasoning; None: the checkpoint's ``chat_defaults``, else on.
        effort: "minimal" | "low" (50), "medium" | "high" | "xhigh" (75), "ultra" | "max" (100 of 100); None: the
            checkpoint's ``chat_defaults``, else 75. Used with thinking only.
        response_format: {"type": "text" | "json_object" | "json_schema" | "regex", ...}; None is text.
        add_generation_prompt: False ends the prompt with the last message, without the assistant's marker.
        continue_final_message: the last message, an assistant's, is continued; implies no generation prompt.
    """

    tools: Sequence[Mapping[str, Any]] | None = None
    thinking: bool | None = None
    effort: str | None = None
    response_format: Mapping[str, Any] | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False

    @classmethod
    def of(cls, keywords: Mapping[str, Any]) -> ChatOptions:
        """Options by name. Raises TypeError with the nearest name for an unknown one."""
        known = [item.name for item in fields(cls)]
        for name in keywords:
            if name not in known:
                nearest = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {nearest[0]!r}?" if nearest else f"known are {', '.join(known)}"
                raise TypeError(f"unknown chat option {name!r}: {hint}")
        return cls(**keywords)
