"""The wording of a ConfigError about one field."""

from __future__ import annotations

from typing import Any

from deepinfer.errors import ConfigError
from deepinfer.shown_value import shown_value


def field_error(field: str, value: Any, expectation: str) -> ConfigError:
    """``field = value: expected ...``; tuples are shown as the JSON lists they were."""
    shown = list(value) if isinstance(value, tuple) else value
    return ConfigError(f"{field} = {shown_value(shown)}: expected {expectation}")
