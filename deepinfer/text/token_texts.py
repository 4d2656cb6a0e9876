"""The bytes of every token, searchable by beginning."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


class TokenTexts:
    """Made once per tokenizer.

    Args:
        pieces: bytes of each id, empty for ids that stand for no text (`Tokenizer.text_pieces`).
    """

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.pieces = pieces
        self._order = sorted((piece, token_id) for token_id, piece in enumerate(pieces) if piece)

    def starting_with(self, text: bytes) -> list[int]:
        """Ids whose bytes begin with `text`."""
        begin = bisect_left(self._order, (text, -1))
        found = []
        for piece, token_id in self._order[begin:]:
            if not piece.startswith(text):
                break
            found.append(token_id)
        return found

    def containing(self, text: bytes) -> list[int]:
        """Ids whose bytes hold `text`."""
        return [token_id for token_id, piece in enumerate(self.pieces) if text in piece]

    def tail(self, token_ids: Sequence[int], num_bytes: int) -> bytes:
        """The last bytes of the ids' text, `num_bytes` at most."""
        tail = b""
        for token_id in reversed(token_ids):
            if len(tail) >= num_bytes:
                break
            tail = self.pieces[token_id] + tail if token_id < len(self.pieces) else tail
        return tail[len(tail) - num_bytes :] if len(tail) > num_bytes else tail
