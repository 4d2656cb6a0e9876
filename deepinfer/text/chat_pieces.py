"""Parts of an answer: reasoning, content and tool calls."""

from __future__ import annotations

from dataclasses import dataclass, field

from deepinfer.outputs import ToolCallDelta


@dataclass(slots=True)
class ChatPieces:
    """What the chat parser found in the text pushed last.

    Attributes:
        reasoning: new text of the reasoning.
        content: new text of the answer.
        tool_calls: what was added to tool calls.
    """

    reasoning: str = ""
    content: str = ""
    tool_calls: list[ToolCallDelta] = field(default_factory=list)
