"""A conversation as a prompt, with what is needed to read its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deepseek_recipe import ConversationRequest


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """Made by `ChatFormat.render`.

    Attributes:
        text: the prompt as text, special tokens spelled out.
        token_ids: its ids; control ids stand for the format's own markers only, never for contents.
        starts_in_reasoning: whether the answer begins inside the reasoning.
        structured_outputs: grammar that the response format asks for, as SamplingParams takes it; None for none.
        request: the library's request, from which parsers of answers are made.
    """

    text: str
    token_ids: list[int]
    starts_in_reasoning: bool
    structured_outputs: dict[str, Any] | None
    request: ConversationRequest
