"""The compressed vocabulary of Engram: ids whose texts look alike share one number (spec/model.md 9.1)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import tokenizers
from tokenizers import Regex, normalizers

from deepinfer.config.strict_json import MAX_TABLE_BYTES, read_bounded
from deepinfer.errors import CheckpointError
from deepinfer.text.tokenizer_file import read_tokenizer

_REPLACEMENT: Final = "\ufffd"
_LONE_SPACE: Final = "\ue000"  # private mark that keeps the lone-space token distinct through the strip


def compressed_vocabulary(tokenizer_json: str | Path, vocab_size: int, pad_token_id: int = 2) -> np.ndarray:
    """Map every token id to its compressed id.

    Compressed ids are given in order of first appearance over the tokenizer's ids. The key of an id is its text,
    normalised; its raw vocabulary entry when the text is no whole UTF-8; its plain text when normalising leaves
    nothing. Ids behind the tokenizer's size (padded rows of the embedding) have no text and can stand in no prompt;
    they share the padding token's number, so they add none.

    Args:
        tokenizer_json: the tokenizer.json file.
        vocab_size: rows of the embedding.
        pad_token_id: the Engram padding id.

    Returns:
        int64 [vocab_size]; the compressed vocabulary's size is its maximum plus one.

    Raises:
        CheckpointError: the file is unreadable, an id is not below `vocab_size`, or the padding id is not in it.
    """
    content = read_bounded(tokenizer_json, CheckpointError, MAX_TABLE_BYTES)
    tokenizer = read_tokenizer(content, tokenizer_json, vocab_size)
    num_ids = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1
    if not 0 <= pad_token_id < num_ids:
        raise CheckpointError(f"{tokenizer_json}: Engram padding id {pad_token_id} is not among its {num_ids} ids")
    numbers: dict[str, int] = {}
    result = np.empty(vocab_size, np.int64)
    for token_id, key in enumerate(_keys(tokenizer, num_ids)):
        result[token_id] = numbers.setdefault(key, len(numbers))
    result[num_ids:] = result[pad_token_id]
    return result


def _keys(tokenizer: tokenizers.Tokenizer, num_ids: int) -> list[str]:
    normalizer = _normalizer()
    keys: list[str] = []
    for token_id in range(num_ids):  # one by one: the library's batch call would start threads
        text = tokenizer.decode([token_id], skip_special_tokens=False)
        if _REPLACEMENT in text:
            keys.append(tokenizer.id_to_token(token_id) or text)
        else:
            keys.append(normalizer.normalize_str(text) or text)
    return keys


def _normalizer() -> normalizers.Sequence:
    return normalizers.Sequence(
        [
            normalizers.NFKC(),
            normalizers.NFD(),
            normalizers.StripAccents(),
            normalizers.Lowercase(),
            normalizers.Replace(Regex(r"[ \t\r\n]+"), " "),
            normalizers.Replace(Regex(r"^ $"), _LONE_SPACE),
            normalizers.Strip(),
            normalizers.Replace(_LONE_SPACE, " "),
        ]
    )
