"""Names a value inside an expression, so that it is computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx


def bind(value: Any, body: Callable[[Any], Any]) -> Any:
    """``body(value)`` where `body` may use its argument often: a let expression instead of copies of `value`."""
    name = tirx.Var("bound", value.dtype)
    return tirx.Let(name, value, body(name))
