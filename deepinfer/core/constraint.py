"""What a structured request asks for, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

DEFAULT_WHITESPACE_LIMIT: Final = 8


@dataclass(frozen=True, slots=True)
class Constraint:
    """Made by `grammar.parse_constraint`.

    Attributes:
        kind: how `source` is to be read: JSON schema, regular expression, or EBNF with the rule ``root``.
        source: the grammar's text.
        whitespace_limit: blanks in a row between the parts of a JSON value; 0: compact JSON. Of JSON only.
        trigger_token_ids: the grammar starts behind these tokens; empty: with the first token.
        bound_token_id: once seen, the rest of the trigger is forced; None: never.
    """

    kind: Literal["json", "regex", "ebnf"]
    source: str
    whitespace_limit: int = DEFAULT_WHITESPACE_LIMIT
    trigger_token_ids: tuple[int, ...] = ()
    bound_token_id: int | None = None

    @property
    def key(self) -> tuple[str, str, int]:
        """What the compiled grammar depends on."""
        return self.kind, self.source, self.whitespace_limit
