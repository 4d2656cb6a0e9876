"""Checks conversations and brings their messages into the one form that the prompt format's library reads."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from deepinfer.errors import RequestError

_KEYS: Final = ("role", "content", "name", "reasoning_content", "tool_calls", "tool_call_id", "prefix")
_ALIASES: Final = {"reasoning": "reasoning_content"}  # how other engines spell it


def split_conversations(messages: Any) -> list[Any]:
    """The conversations of a call: a list of messages counts as one conversation; an empty list as none.

    Raises RequestError (code invalid_messages) for anything but a list.
    """
    if isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Sequence):
        raise _wrong(f"messages is a {type(messages).__name__}; expected a list of messages, or a list of such lists")
    items = list(messages)
    return [items] if any(isinstance(item, Mapping) for item in items) else items


def normalized_messages(conversation: Any, *, continue_final: bool) -> list[dict[str, Any]]:
    """Messages with known keys only, call arguments as JSON text.

    Args:
        conversation: list of OpenAI-style message dicts.
        continue_final: mark the last message, which must be an assistant's, as the start of the answer.

    Raises RequestError (code invalid_messages) that names the message and what is wrong.
    """
    if isinstance(conversation, (str, bytes, Mapping)) or not isinstance(conversation, Sequence):
        raise _wrong(f"a conversation is a {type(conversation).__name__}; expected a list of messages")
    if not conversation:
        raise _wrong("the conversation is empty: give at least one message")
    messages = [_message(index, message) for index, message in enumerate(conversation)]
    if continue_final:
        role = messages[-1].get("role")
        if role != "assistant":
            raise _wrong(
                f"continue_final_message needs an assistant message at the end; the last one's role is {role!r}"
            )
        messages[-1]["prefix"] = True
    return messages


def _message(index: int, message: Any) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        raise _wrong(f'messages[{index}] is a {type(message).__name__}; expected {{"role": ..., "content": ...}}')
    kept: dict[str, Any] = {}
    for given, value in message.items():
        key = _ALIASES.get(given, given)
        if key in _KEYS:
            kept[key] = value
        elif value is not None and value != []:  # what other libraries dump for fields that are not in use
            nearest = difflib.get_close_matches(str(key), _KEYS, n=1)
            hint = f"did you mean {nearest[0]!r}?" if nearest else f"known are {', '.join(_KEYS)}"
            raise _wrong(f"messages[{index}] has the unknown key {key!r}: {hint}")
    if kept.get("role") not in ("user", "system") and kept.get("content") is None:
        kept["content"] = ""
    if kept.get("tool_calls"):
        kept["tool_calls"] = [_call(f"messages[{index}].tool_calls", call) for call in kept["tool_calls"]]
    elif "tool_calls" in kept:
        del kept["tool_calls"]
    return kept


def _call(place: str, call: Any) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(function, Mapping):
        raise _wrong(f'{place} holds {call!r}; expected {{"id": ..., "function": {{"name": ..., "arguments": ...}}}}')
    arguments = function.get("arguments", "{}")
    if isinstance(arguments, Mapping):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return {"type": "function", **call, "function": {**function, "arguments": arguments}}


def _wrong(message: str) -> RequestError:
    return RequestError(message, code="invalid_messages")
