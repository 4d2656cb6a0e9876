"""Words are kept out of a text however they are spelt."""

import pytest

from deepinfer.errors import RequestError
from deepinfer.text.banned_words import TextBan
from deepinfer.text.token_texts import TokenTexts

PIECES = [b"", b"c", b"a", b"t", b" ca", b"cat", b" cat", b"ty", b"concatenate", "é".encode(), b"\xc3", b"\xa9", b"at"]
TEXTS = TokenTexts(PIECES)


@pytest.mark.parametrize(
    ("words", "generated", "banned"),
    [
        (["cat"], [], {5, 6, 8}),
        (["cat"], [1], {5, 6, 8, 12}),
        (["cat"], [1, 2], {5, 6, 8, 3, 7}),
        (["cat"], [4], {5, 6, 8, 3, 7}),
        (["cat"], [1, 0, 2], {5, 6, 8, 3, 7}),
        (["cat"], [3, 2], {5, 6, 8}),
        ([" cat"], [1, 2], {6}),
        ([" cat"], [4], {6, 3, 7}),
        (["é"], [10], {9, 11}),
        (["cat", "tt"], [2, 3], {5, 6, 8, 3, 7}),
        (["aa"], [2], {2, 12}),
    ],
)
def test_banned_after(words: list[str], generated: list[int], banned: set[int]) -> None:
    assert set(TextBan(words, TEXTS).banned_after(generated)) == banned


@pytest.mark.parametrize("word", ["", " ", "\t\n", "\u3000"])
def test_white_space_is_refused(word: str) -> None:
    with pytest.raises(RequestError, match="white space") as caught:
        TextBan(["cat", word], TEXTS)
    assert caught.value.code == "invalid_bad_words"
