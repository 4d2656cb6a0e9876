"""Puts the markers that a parser needs back into a text from which special tokens were left out."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from deepseek_recipe import SpecialToken

from deepinfer.text.detokenizer import Detokenizer
from deepinfer.text.tokenizer import Tokenizer

_MARKERS: Final = (SpecialToken.ThinkingStart, SpecialToken.ThinkingEnd, SpecialToken.Dsml)


class MarkedText:
    """Follows one completion: ids say where a marker stands, the visible text says how far the output has got."""

    def __init__(self, tokenizer: Tokenizer, *, skip_special_tokens: bool) -> None:
        """`skip_special_tokens`: whether the visible text lacks special tokens, so that markers have to be put back."""
        self._tokenizer = tokenizer
        self._skips = skip_special_tokens
        spellings = {tokenizer.added_token_id(kind.default_str()): kind.default_str() for kind in _MARKERS}
        hidden = tokenizer.special_ids if skip_special_tokens else frozenset[int]()
        self._markers = {number: text for number, text in spellings.items() if number in hidden}
        self._detokenizer = Detokenizer(tokenizer)
        self._num_decoded = 0  # visible characters up to the newest id
        self._num_taken = 0  # visible characters that were given out
        self._waiting: deque[tuple[int, str]] = deque()  # visible characters before a marker, its spelling

    def push(self, token_ids: Sequence[int], text: str, *, ended_by_token: bool = False) -> str:
        """The next piece of text with markers.

        Args:
            token_ids: new ids.
            text: new visible text; may lag behind the ids, or end before them at a stop string.
            ended_by_token: the last id is an EOS that ended the completion; a spelling of it in `text` is dropped.
        """
        if ended_by_token and not self._skips:
            text = text.removesuffix(self._tokenizer.decode_token(token_ids[-1]))
        if not self._markers:
            return text
        for token_id in token_ids:
            if token_id in self._markers:
                self._waiting.append((self._num_decoded, self._markers[token_id]))
            else:
                self._num_decoded += len(self._detokenizer.push((token_id,)))
        return self._with_markers(text)

    def _with_markers(self, text: str) -> str:
        pieces, end = [], self._num_taken + len(text)
        while self._waiting and self._waiting[0][0] <= end:
            place, spelling = self._waiting.popleft()
            cut = place - self._num_taken
            pieces += [text[:cut], spelling]
            text, self._num_taken = text[cut:], place
        self._num_taken = end
        return "".join([*pieces, text])
