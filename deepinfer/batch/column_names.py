"""Which columns of an input mean what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from deepinfer.errors import JobError
from deepinfer.sampling_param_checks import CHECKS


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """Columns of JSON lines and Parquet.

    Attributes:
        custom_id: a row's own id.
        prompt: a text, or a list of ids.
        messages: a conversation; a row has either a prompt or messages.
        sampling_params: an object of sampling parameters of the row.
        chat_options: an object of chat options of the row (tools, thinking, effort, response_format, ...).
        params: further columns that are sampling parameters: (parameter, column) pairs.
        keep_prompts: whether prompt and messages are kept in the results.
    """

    custom_id: str = "custom_id"
    prompt: str = "prompt"
    messages: str = "messages"
    sampling_params: str = "sampling_params"
    chat_options: str = "chat_options"
    params: tuple[tuple[str, str], ...] = ()
    keep_prompts: bool = False

    def __post_init__(self) -> None:
        named = [self.custom_id, self.prompt, self.messages, self.sampling_params, self.chat_options]
        named += [column for _, column in self.params]
        for column in named:
            if not column or named.count(column) > 1:
                raise JobError(f"the column {column!r} stands for several things; name a column once")
        for parameter, _ in self.params:
            if parameter not in CHECKS or parameter == "logits_processors":
                raise JobError(f"{parameter!r} is no sampling parameter of a row; known are {', '.join(CHECKS)}")

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ColumnNames:
        """What `to_dict` gave."""
        return cls(**{**values, "params": _pairs(values["params"])})

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return {**asdict(self), "params": [list(pair) for pair in self.params]}


def _pairs(values: Sequence[Sequence[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((parameter, column) for parameter, column in values)
