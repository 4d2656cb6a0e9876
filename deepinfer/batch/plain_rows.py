"""Rows of JSON lines and Parquet: a prompt or a conversation in columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deepinfer.batch.column_names import ColumnNames
from deepinfer.batch.input_line import InputLine
from deepinfer.batch.input_row import InputRow, default_id
from deepinfer.batch.row_fields import RowFields, read_custom_id, read_fields, read_value
from deepinfer.errors import RequestError


class PlainRows:
    """Reads rows by the names of their columns."""

    def __init__(self, columns: ColumnNames) -> None:
        self._columns = columns
        self._used = {columns.custom_id, columns.sampling_params, columns.chat_options}
        if not columns.keep_prompts:
            self._used |= {columns.prompt, columns.messages}
        if columns.custom_id != "custom_id":  # results name the id so; the column itself is kept
            self._used.discard(columns.custom_id)

    @property
    def id_column(self) -> str:
        return self._columns.custom_id

    @property
    def wanted(self) -> tuple[str, ...]:
        return self._columns.prompt, self._columns.messages

    @property
    def advice(self) -> str:
        return "name it with --prompt-column or --messages-column"

    def answers_to(self, fields: RowFields) -> bool:
        return any(name in fields for name in self.wanted)

    def parse(self, number: int, line: InputLine) -> InputRow:
        columns, custom_id, extra = self._columns, default_id(number), {}
        try:
            fields = read_fields(line)
            extra = {name: raw for name, raw in fields.items() if name not in self._used}
            custom_id = read_custom_id(fields, columns.custom_id) or custom_id
            prompt, messages = read_value(fields, columns.prompt), read_value(fields, columns.messages)
            self._check(fields, prompt, messages)
            chat = _mapping(fields, columns.chat_options)
            if chat and messages is None:
                message = f"{columns.chat_options!r} belongs to {columns.messages!r}, which the row does not have"
                raise RequestError(message, code="invalid_prompt")
            return InputRow(number, custom_id, line.num_bytes, prompt, messages, chat, self._params(fields), extra)
        except RequestError as error:
            return InputRow(number, custom_id, line.num_bytes, extra=extra, error=error)

    def _check(self, fields: RowFields, prompt: Any, messages: Any) -> None:
        names = f"{self._columns.prompt!r} or {self._columns.messages!r}"
        if prompt is None and messages is None:
            found = ", ".join(map(repr, fields)) or "none"
            raise RequestError(f"the row has no column {names}; its columns: {found:.300}", code="missing_column")
        if prompt is not None and messages is not None:
            raise RequestError(f"the row has both {names}: leave one of them out", code="invalid_prompt")
        if prompt is not None and not isinstance(prompt, (str, list)):
            kind = type(prompt).__name__
            message = f"{self._columns.prompt!r} must be a text or a list of ids, not a {kind}"
            raise RequestError(message, code="invalid_prompt")

    def _params(self, fields: RowFields) -> dict[str, Any]:
        params = dict(_mapping(fields, self._columns.sampling_params))
        for parameter, column in self._columns.params:
            value = read_value(fields, column)
            if value is not None:
                params[parameter] = value
        return params


def _mapping(fields: RowFields, name: str) -> Mapping[str, Any]:
    value = read_value(fields, name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        message = f"{name!r} must be an object of names and values, not a {type(value).__name__}"
        raise RequestError(message, code="invalid_sampling_params")
    return {key: item for key, item in value.items() if item is not None}
