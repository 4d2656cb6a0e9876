"""Tokenizers for the text tests: the golden one, and a small byte-level one with known tokens."""

from pathlib import Path

import pytest
import tokenizers
from tokenizers import AddedToken, decoders, models, pre_tokenizers

from deepinfer.text.byte_decoder import token_bytes
from deepinfer.text.chat_format import ChatFormat
from deepinfer.text.tokenizer import Tokenizer

MINI = Path(__file__).parents[2] / "deepinfer" / "data" / "mini"
GOLDEN = Path(__file__).parents[1] / "golden" / "nano-s1"


def byte_level_backend(merges, special, added):
    """256 byte tokens (id = byte), one merged token per entry of `merges`, then special and plain added tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {char: token_bytes(char)[0] for char in alphabet}
    for left, right in merges:
        vocabulary[left + right] = len(vocabulary)
    backend = tokenizers.Tokenizer(models.BPE(vocabulary, merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(token, normalized=False) for token in special])
    backend.add_tokens([AddedToken(token, normalized=False) for token in added])
    return backend


@pytest.fixture(scope="session")
def golden_tokenizer():
    """512 ids, BOS 0, EOS 1, PAD 2."""
    return Tokenizer.from_path(GOLDEN)


@pytest.fixture(scope="session")
def byte_tokenizer():
    """Byte tokens 0..255, " c" 256, "at" 257, " cat" 258; <bos> 259, <eos> 260 special; <t> 261, </t> 262 plain."""
    merges = [("Ġ", "c"), ("a", "t"), ("Ġc", "at")]
    backend = byte_level_backend(merges, ["<bos>", "<eos>"], ["<t>", "</t>", "é"])
    return Tokenizer(backend, {"bos_token": "<bos>", "eos_token": {"content": "<eos>"}})


@pytest.fixture(scope="session")
def tokenizer():
    """The bundled model's."""
    return Tokenizer.from_path(MINI)


@pytest.fixture(scope="session")
def chat_format(tokenizer):
    """With the format's own defaults."""
    return ChatFormat(tokenizer)
