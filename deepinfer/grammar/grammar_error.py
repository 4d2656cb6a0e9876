"""The error of a request whose grammar is wrong."""

from __future__ import annotations

from deepinfer.errors import RequestError


def grammar_error(message: str) -> RequestError:
    """A RequestError with code ``grammar_error``."""
    return RequestError(message, code="grammar_error")
