"""Encoding of prompts and pairs, decoding, ids; cases 13 and 40."""

import json
import pickle
import random

import pytest
import tokenizers

from deepinfer.errors import CheckpointError
from deepinfer.text.tokenizer import Tokenizer
from tests.text.conftest import GOLDEN

BOS = "<｜begin▁of▁sentence｜>"


def test_ids_and_size(golden_tokenizer):
    t = golden_tokenizer
    assert (t.size, t.bos_token_id) == (512, 0)
    assert t.special_ids >= {0, 1, 2} and t.token_to_id(BOS) == 0 and t.id_to_token(0) == BOS
    assert t.id_to_token(512) is None


def test_bos_is_added_unless_present(golden_tokenizer):
    plain = golden_tokenizer.encode("Hello")
    assert 0 not in plain
    assert golden_tokenizer.encode_prompt("Hello") == [0, *plain]
    assert golden_tokenizer.encode_prompt(BOS + "Hello") == [0, *plain]
    assert golden_tokenizer.encode_prompt("") == [0]


def test_markers_are_recognised(golden_tokenizer):
    ids = golden_tokenizer.encode("a<｜end▁of▁sentence｜>b")
    assert ids.count(1) == 1 and golden_tokenizer.decode(ids) == "a<｜end▁of▁sentence｜>b"
    assert golden_tokenizer.decode(ids, skip_special_tokens=True) == "ab"


@pytest.mark.parametrize("skip", [False, True])
def test_decode_equals_the_library(golden_tokenizer, skip):
    library = tokenizers.Tokenizer.from_file(str(GOLDEN / "tokenizer.json"))
    rng = random.Random(1)
    for _ in range(500):
        ids = [rng.randrange(512) for _ in range(rng.randrange(12))]
        assert golden_tokenizer.decode(ids, skip) == library.decode(ids, skip_special_tokens=skip)


def test_added_tokens_get_no_spaces(byte_tokenizer):
    ids = byte_tokenizer.encode("<t>1</t>")
    assert len(ids) == 3 and byte_tokenizer.decode(ids) == "<t>1</t>"
    assert byte_tokenizer.decode(ids, skip_special_tokens=True) == "<t>1</t>"


def test_added_token_inside_the_byte_alphabet_is_text(byte_tokenizer):
    ids = byte_tokenizer.encode("caf" + "é")
    assert ids[-1] == byte_tokenizer.token_to_id("é") and byte_tokenizer.decode(ids) == "café"


def test_unknown_ids_decode_to_nothing(byte_tokenizer):
    assert byte_tokenizer.decode([97, byte_tokenizer.size, -1, 98]) == "ab"


def test_decode_token(byte_tokenizer):
    assert [byte_tokenizer.decode_token(i) for i in (97, 0xF0, 258)] == ["a", "\ufffd", " cat"]


def test_pairs_split_as_the_harness_does(byte_tokenizer):
    t = byte_tokenizer
    assert t.encode_pair("a", " cat") == ([259, 97], [258])
    assert t.encode_pair("a ", "cat") == ([259, 97], [258])  # trailing space moves over
    assert t.encode_pair("", "ab") == ([259], [97, 98])
    assert t.encode_pair(" ", "ab") == ([259], [32, 97, 98])
    assert t.encode_pair("<bos>a", "b") == ([259, 97], [98])
    context, continuation = t.encode_pair("x a", "t!")  # "at" merges over the border: cut where the context ends
    assert context == [259, 120, 32, 97] and continuation == t.encode_prompt("x at!")[4:]


def test_pickle(byte_tokenizer):
    twin = pickle.loads(pickle.dumps(byte_tokenizer))
    assert twin.encode_prompt("a cat") == byte_tokenizer.encode_prompt("a cat") and twin.bos_token_id == 259


def test_loading_errors_name_the_file(tmp_path):
    with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
        Tokenizer.from_path(tmp_path)
    file = tmp_path / "tokenizer.json"
    file.write_text("{}")
    with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
        Tokenizer.from_path(tmp_path)
    description = json.loads((GOLDEN / "tokenizer.json").read_text())
    file.write_text(json.dumps({**description, "decoder": None}))
    with pytest.raises(CheckpointError, match="ByteLevel"):
        Tokenizer.from_path(file)
    file.write_text(json.dumps(description))
    (tmp_path / "tokenizer_config.json").write_text("[1")
    with pytest.raises(CheckpointError, match=r"tokenizer_config\.json"):
        Tokenizer.from_path(file)
    (tmp_path / "tokenizer_config.json").unlink()
    assert Tokenizer.from_path(file).bos_token_id is None


def test_the_models_bos_stands_in_and_must_agree(tmp_path):
    file = tmp_path / "tokenizer.json"
    file.write_text((GOLDEN / "tokenizer.json").read_text())
    tokenizer = Tokenizer.from_path(file, bos_token_id=0)  # no tokenizer_config.json
    assert tokenizer.encode_prompt("Hello") == [0, *tokenizer.encode("Hello")]
    assert pickle.loads(pickle.dumps(tokenizer)).bos_token_id == 0
    with pytest.raises(CheckpointError, match="no token 512"):
        Tokenizer.from_path(file, bos_token_id=512)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"bos_token": BOS}))
    assert Tokenizer.from_path(file, bos_token_id=0).bos_token_id == 0
    with pytest.raises(CheckpointError, match="id 0, but config.json says bos_token_id = 5"):
        Tokenizer.from_path(file, bos_token_id=5)
