"""Token ids to text, piece by piece, without ever cutting a character."""

from __future__ import annotations

import codecs
from collections.abc import Iterable

from deepinfer.text.tokenizer import Tokenizer


class Detokenizer:
    """Incremental decoding of one sequence. Pieces joined, with `finish`, equal ``tokenizer.decode(all ids)``.

    Bytes of an unfinished character are held back; at the end a dangling one shows as one U+FFFD.
    """

    def __init__(self, tokenizer: Tokenizer, *, skip_special_tokens: bool = True) -> None:
        self._tokenizer = tokenizer
        self._skip_special_tokens = skip_special_tokens
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token_ids: Iterable[int]) -> str:
        """Add tokens; returns the text that became complete, possibly empty."""
        return self._decoder.decode(self._tokenizer.decode_bytes(list(token_ids), self._skip_special_tokens))

    def finish(self) -> str:
        """The rest: empty, or one U+FFFD for a dangling start of a character."""
        return self._decoder.decode(b"", final=True)
