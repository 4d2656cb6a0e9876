"""A value as an error message shows it: never longer than a few lines, and never an error of its own."""

from __future__ import annotations

from typing import Any, Final

_MAX_CHARS: Final = 300
_MAX_INTEGER_BITS: Final = 1024


def shown_value(value: Any) -> str:
    """``repr(value)``, its middle left out beyond 300 characters.

    What Python cannot write out (an integer of thousands of digits, a structure nested too deeply, an object whose own
    ``repr`` fails) is named by its type instead.
    """
    if isinstance(value, int) and value.bit_length() > _MAX_INTEGER_BITS:
        return f"an integer of {value.bit_length()} bits"
    try:
        text = repr(value)
    except Exception:  # the message is about this value: it must come out, whatever the value does
        return f"a {type(value).__name__} that cannot be shown"
    half = _MAX_CHARS // 2
    return text if len(text) <= _MAX_CHARS else f"{text[:half]}...({len(text) - _MAX_CHARS} more)...{text[-half:]}"
