"""Keeps words out of the generated text, whatever tokens they are spelt with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from deepinfer.errors import RequestError
from deepinfer.text.token_texts import TokenTexts


class TextBan:
    """A token is banned when its bytes, behind the text generated so far, complete a banned word (core BannedWords).

    So no way of cutting the word into tokens gets through, nor the word inside a longer one ("cat" bans "concatenate").
    The prompt's text does not count. A word is taken literally: " cat" bans it behind a space only.

    Args:
        words: texts; RequestError (code "invalid_bad_words") for white space only, as banning it would ban spacing.
        texts: bytes of the tokens.
    """

    def __init__(self, words: Iterable[str], texts: TokenTexts) -> None:
        self._texts = texts
        self._words = [self._checked(word) for word in words]
        self._always = sorted({token_id for word in self._words for token_id in texts.containing(word)})
        self._reach = max((len(word) for word in self._words), default=1) - 1
        self._endings: dict[bytes, list[int]] = {}

    def banned_after(self, generated: Sequence[int] | np.ndarray) -> list[int]:
        """Ids that would complete a word, given the ids generated so far."""
        tail = self._texts.tail(generated if isinstance(generated, list) else list(generated), self._reach)
        banned = list(self._always)
        for word in self._words:
            for cut in range(1, len(word)):
                if tail.endswith(word[:cut]):
                    banned += self._starting_with(word[cut:])
        return banned

    def _starting_with(self, ending: bytes) -> list[int]:
        if ending not in self._endings:
            self._endings[ending] = self._texts.starting_with(ending)
        return self._endings[ending]

    @staticmethod
    def _checked(word: str) -> bytes:
        if not word.strip():
            message = f"bad_words has {word!r}, which is white space only; give words with visible characters"
            raise RequestError(message, code="invalid_bad_words")
        return word.encode("utf-8", "surrogatepass")
