"""A minimal byte-level tokenizer that fills a random model's vocabulary."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

_SPECIAL = ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>")
_MARKERS = ("<｜User｜>", "<｜Assistant｜>", "<｜System｜>", "<think>", "</think>")
_MERGES = (
    *("t h", "th e", "i n", "e r", "a n", "an d", "o n", "r e"),
    *("Ġ t", "Ġ a", "Ġ the", "e n", "o r", "i t", "o u", "l l"),
)


def write_random_tokenizer(directory: Path, vocab_size: int) -> Path:
    """Writes tokenizer.json and tokenizer_config.json with exactly `vocab_size` ids (at least 4); returns the first.

    Ids 0, 1, 2 are BOS, EOS and PAD; then the 256 bytes (as far as they fit), a few merges, fillers, and the chat
    markers as the last ids.
    """
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())[: max(0, vocab_size - len(_SPECIAL))]
    vocab = {token: number for number, token in enumerate([*_SPECIAL, *letters])}
    room = vocab_size - len(vocab)
    markers = list(_MARKERS) if room >= len(_MARKERS) else []
    merges: list[tuple[str, str]] = []
    for merge in _MERGES[: max(0, room - len(markers))]:
        left, right = merge.split(" ")
        if left in vocab and right in vocab:
            vocab[left + right] = len(vocab)
            merges.append((left, right))
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in _SPECIAL])
    fillers = vocab_size - len(vocab) - len(markers)
    tokenizer.add_tokens([AddedToken(f"<filler_{number}>", normalized=False) for number in range(fillers)])
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in markers])
    path = directory / "tokenizer.json"
    tokenizer.save(str(path))
    write_tokenizer_config(directory)
    return path


def write_tokenizer_config(directory: Path) -> None:
    """Writes the tokenizer_config.json that belongs to the special tokens above."""
    names = dict(zip(("bos_token", "eos_token", "pad_token"), _SPECIAL, strict=True))
    values = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **names,
        "add_bos_token": False,
        "add_eos_token": False,
        "clean_up_tokenization_spaces": False,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(values, ensure_ascii=False, indent=1), encoding="utf-8")
