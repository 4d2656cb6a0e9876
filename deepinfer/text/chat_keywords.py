"""The keywords that `LLM.chat` and `LLM.stream_chat` share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict


class ChatKeywords(TypedDict, total=False):
    """The fields of `text.chat_options.ChatOptions`, any of them left out.

    Attributes:
        tools: OpenAI-style function tools that the model may call.
        thinking: reason before answering; None: the checkpoint's ``chat_defaults``, else on.
        effort: "minimal" to "max": how thorough the reasoning is; None: the checkpoint's, else the format's.
        response_format: {"type": "json_object"}, or "json_schema" or "regex" with their schema: the answer keeps to it
            (with tools it is asked for only).
        add_generation_prompt: False ends the prompt with the last message.
        continue_final_message: continue the last message, an assistant's, instead of answering it.
    """

    tools: Sequence[Mapping[str, Any]] | None
    thinking: bool | None
    effort: str | None
    response_format: Mapping[str, Any] | None
    add_generation_prompt: bool
    continue_final_message: bool
