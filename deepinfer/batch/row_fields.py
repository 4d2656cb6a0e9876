"""A line as named fields whose values nobody has touched yet, so that other columns are kept to the byte."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from deepinfer.batch.input_line import InputLine
from deepinfer.errors import RequestError

RowFields = dict[str, msgspec.Raw]

_DECODER: Final = msgspec.json.Decoder(RowFields)


def read_fields(line: InputLine) -> RowFields:
    """The fields of a row, in its order.

    Raises RequestError: codes row_too_large, invalid_row, invalid_utf8, invalid_json.
    """
    text = line.text
    if line.damage is not None:
        raise RequestError(line.damage, code="invalid_row")
    if text is None:
        raise RequestError(
            "the row is longer than the job's limit; shorten it, or raise --max-row-bytes", code="row_too_large"
        )
    try:
        text.decode("utf-8")
        return _DECODER.decode(text)
    except UnicodeDecodeError as error:
        raise RequestError(f"the row is not UTF-8: {error.reason} at byte {error.start}", code="invalid_utf8") from None
    except (msgspec.MsgspecError, RecursionError) as error:
        raise RequestError(f"the row is no JSON object: {error}", code="invalid_json") from None


def read_value(fields: RowFields, name: str) -> Any:
    """The value of a field; None when it is absent or null. RequestError, code invalid_json, for what has no value."""
    raw = fields.get(name)
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise RequestError(f"{name!r} cannot be read: {error}", code="invalid_json") from None


def read_custom_id(fields: RowFields, name: str) -> str | None:
    """The row's own id: a text, or an integer as text; None when it has none.

    Raises RequestError, code invalid_custom_id, for any other value.
    """
    value = read_value(fields, name)
    if value is None or (isinstance(value, str) and value):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    message = f"{name!r} is {value!r:.80}; an id is a non-empty text or an integer"
    raise RequestError(message, code="invalid_custom_id")
