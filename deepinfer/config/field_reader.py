"""Strict access to one JSON object of a config file: typed, named errors, and no key left unread."""

from __future__ import annotations

import math
from typing import Any

from deepinfer.errors import ConfigError
from deepinfer.logging import get_logger
from deepinfer.shown_value import shown_value

logger = get_logger(__name__)

_REQUIRED: Any = object()


def is_finite_number(value: Any) -> bool:
    """Whether it is an int or a float, not a bool, that a double can hold."""
    try:
        return type(value) in (int, float) and math.isfinite(value)
    except OverflowError:  # an int beyond the largest double
        return False


class FieldReader:
    """Reads the keys of one JSON object and remembers which ones were asked for.

    Every error is a ConfigError that names the field with its section (``text_config.head_dim``), the value found and
    what was expected. A key with a `default` is optional; ``null`` counts as absent only where a method says so.
    """

    def __init__(self, values: Any, section: str = "") -> None:
        self._section = section
        if not isinstance(values, dict):
            raise ConfigError(f"{section or 'config.json'} = {shown_value(values)}: expected a JSON object")
        self._values: dict[str, Any] = values
        self._seen: set[str] = set()

    def path(self, key: str) -> str:
        """The key as error messages show it."""
        return f"{self._section}.{key}" if self._section else key

    def has(self, key: str) -> bool:
        """Whether the key is present and not null."""
        return self._values.get(key) is not None

    def fail(self, key: str, expectation: str) -> ConfigError:
        """The error for a wrong value of `key`."""
        return ConfigError(f"{self.path(key)} = {shown_value(self._values.get(key))}: expected {expectation}")

    def raw(self, key: str, default: Any = _REQUIRED) -> Any:
        """The value as it stands."""
        self._seen.add(key)
        if key in self._values:
            return self._values[key]
        if default is _REQUIRED:
            raise ConfigError(f"{self.path(key)} is missing: the published deepseek_v41 config.json has it, add it")
        return default

    def integer(self, key: str, default: Any = _REQUIRED, *, minimum: int = 1) -> int:
        """An integer >= minimum (booleans and floats are refused)."""
        value = self.raw(key, default)
        if key in self._values and (type(value) is not int or value < minimum):
            raise self.fail(key, f"an integer >= {minimum}")
        return int(value)

    def optional_integer(self, key: str, *, minimum: int = 0) -> int | None:
        """An integer >= minimum; None when the key is absent or null."""
        if not self.has(key):
            self.raw(key, None)
            return None
        return self.integer(key, minimum=minimum)

    def number(self, key: str, default: Any = _REQUIRED, *, positive: bool = True) -> float:
        """A finite number, greater than 0 when `positive`, else at least 0."""
        value = self.raw(key, default)
        allowed = is_finite_number(value) and (value > 0 if positive else value >= 0)
        if not allowed:
            raise self.fail(key, "a finite number " + ("> 0" if positive else ">= 0"))
        return float(value)

    def boolean(self, key: str, default: Any = _REQUIRED) -> bool:
        """true or false."""
        value = self.raw(key, default)
        if type(value) is not bool:
            raise self.fail(key, "true or false")
        return value

    def integers(self, key: str, default: Any = _REQUIRED, *, minimum: int = 0) -> tuple[int, ...]:
        """A list of integers >= minimum."""
        value = self.raw(key, default)
        if not isinstance(value, (list, tuple)) or any(type(item) is not int or item < minimum for item in value):
            raise self.fail(key, f"a list of integers >= {minimum}")
        return tuple(value)

    def constant(self, key: str, expected: Any, default: Any = _REQUIRED) -> None:
        """Refuses every value but one: the only one this engine implements."""
        value = self.raw(key, default)
        if type(value) is bool or type(expected) is bool:
            equal = value is expected
        else:
            equal = value == expected
        if not equal:
            raise self.fail(key, f"{expected!r}, the only value this engine implements")

    def section(self, key: str) -> FieldReader:
        """A required nested object."""
        return FieldReader(self.raw(key), self.path(key))

    def optional_section(self, key: str) -> FieldReader | None:
        """A nested object; None when the key is absent or null."""
        value = self.raw(key, None)
        return None if value is None else FieldReader(value, self.path(key))

    def warn_unknown(self) -> None:
        """Logs one warning for each key that nothing asked for."""
        for key in self._values:
            if key not in self._seen:
                logger.warning("config.json: unknown key %s is ignored", shown_value(self.path(key)))
