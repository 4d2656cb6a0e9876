"""The tokenizer of the table model: 16 special ids, 256 byte ids, then merged tokens with known texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, decoders, models, pre_tokenizers

from deepinfer.checkpoint.random_tokenizer import write_tokenizer_config
from deepinfer.text.byte_decoder import token_bytes

NUM_SPECIAL = 16
BOS, EOS, PAD = 0, 1, 2
FIRST_BYTE, FIRST_MERGED = NUM_SPECIAL, NUM_SPECIAL + 256
_NAMES = (
    *("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>"),
    *("<｜User｜>", "<｜Assistant｜>", "<｜System｜>", "<think>", "</think>"),
)
SPECIALS = (*_NAMES, *(f"<｜special_{number}｜>" for number in range(len(_NAMES), NUM_SPECIAL)))
# Each text is an earlier one (or a byte) with one more character behind it, so that BPE reaches it step by step.
MERGED = (" c", " ca", " cat", "ab", "cS", "cST", "cSTO", "Pd", "Pde", "th", "the", " d", " do", " dog", "in", "ing")


def byte_ids(text: str | bytes) -> list[int]:
    """Ids of the byte tokens of a text, never merged."""
    return [FIRST_BYTE + byte for byte in (text.encode() if isinstance(text, str) else text)]


def write_table_tokenizer(directory: Path, merged: Sequence[str] = MERGED, added: Sequence[str] = ()) -> Path:
    """Writes tokenizer.json and tokenizer_config.json; returns the first.

    Args:
        directory: where to.
        merged: texts of the merged tokens, ids from 272 on.
        added: texts of added tokens that are not special, ids behind the merged ones.
    """
    alphabet = {token_bytes(char)[0]: char for char in pre_tokenizers.ByteLevel.alphabet()}
    vocabulary = dict.fromkeys(SPECIALS, 0) | {alphabet[byte]: 0 for byte in range(256)}
    merges: list[tuple[str, str]] = []
    for text in merged:
        letters = [alphabet[byte] for byte in text.encode()]
        merges.append(("".join(letters[:-1]), letters[-1]))
        vocabulary["".join(letters)] = 0
    vocabulary = {token: number for number, token in enumerate(vocabulary)}
    backend = tokenizers.Tokenizer(models.BPE(vocabulary, merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIALS])
    backend.add_tokens([AddedToken(token, normalized=False) for token in added])
    path = directory / "tokenizer.json"
    backend.save(str(path))
    write_tokenizer_config(directory)
    return path
