"""Why one request failed, as a value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RequestFailure:
    """The error of one request; all others of the call complete.

    Attributes:
        code: stable short name, e.g. ``"empty_prompt"``.
        message: names the offending value and the fix.
    """

    code: str
    message: str

    @classmethod
    def from_exception(cls, error: BaseException) -> RequestFailure:
        """Takes the exception's `code` when it has one, else its class name in snake case."""
        name = type(error).__name__.removesuffix("Error")
        snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
        code = getattr(error, "code", None)
        return cls(code if isinstance(code, str) else snake, str(error))

    def __str__(self) -> str:
        return self.message

    def to_dict(self) -> dict[str, str]:
        """JSON-safe."""
        return {"code": self.code, "message": self.message}
