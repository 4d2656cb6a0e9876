"""Both forms of a banned word; case 03 at the text rim."""

import pytest

from deepinfer.errors import RequestError
from deepinfer.text.bad_words import bad_word_ids


def test_with_and_without_a_space(byte_tokenizer):
    assert bad_word_ids(byte_tokenizer, ["cat"]) == ((99, 257), (258,))
    assert bad_word_ids(byte_tokenizer, [" cat", "cat"]) == ((258,), (99, 257))


@pytest.mark.parametrize("word", [" ", "\t"])
def test_white_space_is_refused(byte_tokenizer, word):
    with pytest.raises(RequestError, match="white space"):
        bad_word_ids(byte_tokenizer, ["cat", word])
