"""One row of an input, read and not yet prepared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from deepinfer.batch.row_fields import RowFields
from deepinfer.errors import RequestError

AnswerForm = Literal["row", "chat.completion", "text_completion"]


@dataclass(frozen=True, slots=True)
class InputRow:
    """What a row asks for.

    Attributes:
        number: place among the rows of the input, from 0.
        custom_id: the row's own id, or "row-<number>".
        num_bytes: size of its line.
        prompt: a text or a list of ids, unchecked; None for a conversation.
        messages: a conversation, unchecked; None for a prompt.
        chat: chat options of the row itself.
        params: sampling parameters of the row itself.
        extra: columns that go into the result untouched.
        form: how the result is written.
        error: why the row cannot be read; the other fields are then as far as they were found.
    """

    number: int
    custom_id: str
    num_bytes: int
    prompt: Any = None
    messages: Any = None
    chat: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    extra: RowFields = field(default_factory=dict)
    form: AnswerForm = "row"
    error: RequestError | None = None


def default_id(number: int) -> str:
    """The id of a row that has none of its own."""
    return f"row-{number}"
