"""Incremental decoding; case 12."""

import random

import pytest

from deepinfer.text.detokenizer import Detokenizer


def _pieces(tokenizer, ids, **options):
    detokenizer = Detokenizer(tokenizer, **options)
    return [*(detokenizer.push([token_id]) for token_id in ids), detokenizer.finish()]


def test_multi_byte_characters_and_a_dangling_byte(byte_tokenizer):
    text = "é🌶️한"
    ids = [*text.encode("utf-8"), 0xF0]  # byte tokens: id = byte
    pieces = _pieces(byte_tokenizer, ids)
    assert "".join(pieces) == text + "\ufffd" == byte_tokenizer.decode(ids)
    assert "".join(pieces[:-1]) == text and pieces[-1] == "\ufffd"


def test_invalid_bytes_inside_show_at_once(byte_tokenizer):
    assert _pieces(byte_tokenizer, [0xF0, 97, 98]) == ["", "\ufffda", "b", ""]
    assert _pieces(byte_tokenizer, [0x80, 97]) == ["\ufffd", "a", ""]


def test_special_tokens_are_skipped_on_request(byte_tokenizer):
    ids = [97, 259, 98, 260]
    assert "".join(_pieces(byte_tokenizer, ids, skip_special_tokens=True)) == "ab"
    assert "".join(_pieces(byte_tokenizer, ids, skip_special_tokens=False)) == "a<bos>b<eos>"


@pytest.mark.parametrize("skip", [False, True])
def test_pieces_join_to_the_whole(golden_tokenizer, skip):
    rng = random.Random(2)
    for _ in range(300):
        ids = [rng.randrange(512) for _ in range(rng.randrange(20))]
        pieces = _pieces(golden_tokenizer, ids, skip_special_tokens=skip)
        assert "".join(pieces) == golden_tokenizer.decode(ids, skip)


def test_several_tokens_at_once(byte_tokenizer):
    detokenizer = Detokenizer(byte_tokenizer)
    assert detokenizer.push("한".encode()[:2]) == "" and detokenizer.push("한a".encode()[2:]) == "한a"
    assert detokenizer.push([]) == "" and detokenizer.finish() == ""
