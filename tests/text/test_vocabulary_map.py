"""The compressed vocabulary of Engram."""

import numpy as np
import pytest

from deepinfer.errors import CheckpointError
from deepinfer.text.vocabulary_map import compressed_vocabulary
from tests.text.conftest import GOLDEN, MINI, byte_level_backend


@pytest.mark.parametrize(("path", "vocab_size", "count"), [(GOLDEN, 512, 417), (MINI, 4096, 3262)])
def test_known_sizes(path, vocab_size, count):
    table = compressed_vocabulary(path / "tokenizer.json", vocab_size)
    assert table.dtype == np.int64 and table.shape == (vocab_size,)
    assert sorted(set(table.tolist())) == list(range(count)) and table[:3].tolist() == [0, 1, 2]


@pytest.fixture
def small_file(tmp_path):
    merges = [("Ġ", "a"), ("Ġ", "A"), ("Ġ", "Ġ"), ("Ċ", "Ġ"), ("Ã", "©"), ("e", "e")]
    file = tmp_path / "tokenizer.json"
    byte_level_backend(merges, ["<bos>"], ["ÀB"]).save(str(file))
    return file


def test_look_alikes_share_a_number(small_file):
    table = compressed_vocabulary(small_file, 264)
    a, upper, space, tab, e = (table[ord(char)] for char in "aA \te")
    assert a == upper == table[256] == table[257]  # "a", "A", " a", " A"
    assert space == tab == table[ord("\n")] == table[258] == table[259]  # any run of blanks is one space
    assert e == table[260]  # "e" and "é"
    assert space != a and table[261] not in (a, e)  # "ee" is its own
    assert len({int(table[byte]) for byte in range(0x80, 0x100)}) == 128  # lone bytes keep their raw token


def test_ids_behind_the_tokenizer_share_the_padding_number(small_file):
    short, long = compressed_vocabulary(small_file, 264, 5), compressed_vocabulary(small_file, 280, 5)
    assert np.array_equal(long[:264], short) and set(long[264:].tolist()) == {int(short[5])}
    assert long.max() == short.max()


def test_errors(tmp_path, small_file):
    with pytest.raises(CheckpointError, match="none.json"):
        compressed_vocabulary(tmp_path / "none.json", 10)
    with pytest.raises(CheckpointError, match="padding id 300"):
        compressed_vocabulary(small_file, 264, 300)
