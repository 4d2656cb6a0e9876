"""Token sequences of words that must not be produced."""

from __future__ import annotations

from collections.abc import Iterable

from deepinfer.errors import RequestError
from deepinfer.text.tokenizer import Tokenizer


def bad_word_ids(tokenizer: Tokenizer, words: Iterable[str]) -> tuple[tuple[int, ...], ...]:
    """Ids of every word, as it is and with a space in front; give them to `SamplingParams.with_bad_word_ids`.

    Raises RequestError (code "invalid_bad_words") for a word of white space only: banning it would ban spacing.
    """
    sequences: dict[tuple[int, ...], None] = {}
    for word in words:
        if not word.strip():
            message = f"bad_words has {word!r}, which is white space only; give words with visible characters"
            raise RequestError(message, code="invalid_bad_words")
        for form in (word, f" {word.lstrip()}"):
            sequences[tuple(tokenizer.encode(form))] = None
    return tuple(sequences)
