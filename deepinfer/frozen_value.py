"""Read-only copies of nested values, and plain copies of those."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any


def freeze(value: Any) -> Any:
    """A copy that nobody can change: mappings become read-only views of a private dict, lists and tuples tuples, sets
    frozen sets, at every level. Other objects are kept. A value that contains itself raises RecursionError.
    """
    if isinstance(value, Mapping):
        return MappingProxyType({key: freeze(item) for key, item in value.items()})
    if isinstance(value, (list, tuple)):
        return tuple(freeze(item) for item in value)
    return frozenset(value) if isinstance(value, (set, frozenset)) else value


def thaw(value: Any) -> Any:
    """The same with plain dicts and lists, as JSON and pickle want them."""
    if isinstance(value, Mapping):
        return {key: thaw(item) for key, item in value.items()}
    return [thaw(item) for item in value] if isinstance(value, (list, tuple)) else value
