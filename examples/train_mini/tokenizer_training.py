"""Trains the byte-level BPE tokenizer and writes its files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from examples.train_mini.corpus.document import BOS, EOS, SPECIAL_TOKENS

_PATTERN = r"[^\r\n\p{L}\p{N}\p{P}\p{S}]?\p{L}+|\p{N}| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def train_tokenizer(texts: Iterable[str], vocab_size: int, folder: Path) -> Tokenizer:
    """Writes tokenizer.json, tokenizer_config.json and generation_config.json into a folder.

    Args:
        texts: to learn merges from; markers of special tokens in them count as line ends.
        vocab_size: ids at most; special tokens have the first ones.
        folder: exists.
    """
    tokenizer = Tokenizer(models.BPE())
    splits = [
        pre_tokenizers.Split(Regex(_PATTERN), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(splits)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=2,
        show_progress=False,
        special_tokens=[AddedToken(token, normalized=False, special=True) for token in SPECIAL_TOKENS],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator((_without_markers(text) for text in texts), trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": BOS, "eos_token": EOS}
    settings |= {"pad_token": SPECIAL_TOKENS[2], "add_bos_token": False, "add_eos_token": False}
    settings |= {"clean_up_tokenization_spaces": False, "model_max_length": 8192}
    generation = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2, "do_sample": True, "temperature": 0.3}
    generation |= {"top_p": 0.9, "max_new_tokens": 128, "chat_defaults": {"thinking": False}}
    for name, values in (("tokenizer_config", settings), ("generation_config", generation)):
        text = json.dumps(values, indent=2, ensure_ascii=False) + "\n"
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
    return tokenizer


def _without_markers(text: str) -> str:
    for token in SPECIAL_TOKENS:
        text = text.replace(token, "\n")
    return text
