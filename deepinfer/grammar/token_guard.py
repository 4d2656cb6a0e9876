"""Tokens that no value may hold although the grammar library would take them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np

_SURROGATE: Final = b"\xed[\xa0-\xbf]"
# The library lets raw control characters into strings with minLength or maxLength. A tab is among them, so it is no
# blank between the parts of a value either; line feed and carriage return are kept out of strings by the library.
_CONTROL: Final = b"[\x00-\x09\x0b\x0c\x0e-\x1f]"


class TokenGuard:
    """UTF-8 encoded surrogates (bytes ED A0..BF are no valid UTF-8), special tokens, and in JSON control characters.

    Args:
        pieces: bytes of every token, empty for special ones.
        eos_token_ids: special tokens that the library does take, as the end.
        for_json: whether control characters are banned too.
    """

    def __init__(self, pieces: Sequence[bytes], eos_token_ids: Sequence[int], *, for_json: bool) -> None:
        texts = {i for i, piece in enumerate(pieces) if piece}
        self._known = frozenset(texts.union(eos_token_ids))
        pattern = re.compile(_SURROGATE + b"|" + _CONTROL if for_json else _SURROGATE)
        self._bad = frozenset(i for i, piece in enumerate(pieces) if pattern.search(piece))
        self._opening = frozenset(i for i, piece in enumerate(pieces) if piece.endswith(b"\xed"))
        self._following = frozenset(i for i, piece in enumerate(pieces) if piece and 0xA0 <= piece[0] <= 0xBF)
        self._without_bad = _mask_without(self._bad, len(pieces))
        self._without_following = _mask_without(self._bad | self._following, len(pieces))

    def restrict(self, mask: np.ndarray, last: Sequence[int]) -> None:
        """Clear bits of int32 words in place. `last`: the newest token, empty before the first."""
        if last and last[0] in self._opening:
            mask &= self._without_following
        elif self._bad:
            mask &= self._without_bad

    def allows(self, token_id: int, last: Sequence[int]) -> bool:
        """Whether a token may come behind `last`."""
        if token_id in self._bad or token_id not in self._known:
            return False
        return not (last and last[0] in self._opening and token_id in self._following)


def _mask_without(token_ids: frozenset[int], num_ids: int) -> np.ndarray:
    """int32 [ceil(num_ids / 32)] with every bit set but those of `token_ids`."""
    bits = np.ones(-(-num_ids // 32) * 32, dtype=np.uint8)
    bits[list(token_ids)] = 0
    return np.packbits(bits, bitorder="little").view(np.int32)
