"""Text to token ids and back, over the `tokenizers` library."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import tokenizers

from deepinfer.config.strict_json import MAX_TABLE_BYTES, parse_json_object, read_bounded, read_json_object, shown_path
from deepinfer.errors import CheckpointError, RequestError
from deepinfer.shown_value import shown_value
from deepinfer.text.byte_decoder import token_bytes
from deepinfer.text.tokenizer_file import read_tokenizer

_NAMED_TOKENS = ("bos_token", "eos_token", "pad_token", "unk_token")


class Tokenizer:
    """A byte-level BPE tokenizer as a checkpoint directory describes it (tokenizer.json, tokenizer_config.json).

    Decoding works on bytes: a token is its bytes, a text is the UTF-8 reading of the joined bytes, and what is no
    valid UTF-8 shows as U+FFFD. So added tokens never get spaces around them, and streamed pieces join to the whole.
    """

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        config: dict[str, Any] | None = None,
        bos_token_id: int | None = None,
    ) -> None:
        """Args:
        backend: of the library.
        config: what tokenizer_config.json holds.
        bos_token_id: the model's, used when `config` names none.
        """
        self._backend = backend
        self._config = config or {}
        named = self._named_id("bos_token")
        self._bos_token_id = bos_token_id if named is None else named
        vocabulary = backend.get_vocab(with_added_tokens=True)
        self._size = max(vocabulary.values(), default=-1) + 1
        self._pieces = [b""] * self._size
        for token, token_id in vocabulary.items():
            self._pieces[token_id] = token_bytes(token)
        added = backend.get_added_tokens_decoder()
        for token_id, entry in added.items():
            self._pieces[token_id] = entry.content.encode("utf-8")
        self._added_ids = {entry.content: token_id for token_id, entry in added.items()}
        self._special_ids = frozenset(token_id for token_id, entry in added.items() if entry.special)
        self._decode_one = lru_cache(maxsize=65536)(self._decode_single)

    @classmethod
    def from_path(cls, path: str | Path, bos_token_id: int | None = None, vocab_size: int | None = None) -> Tokenizer:
        """Read a checkpoint directory, or a tokenizer.json with its neighbours.

        Args:
            path: directory or file.
            bos_token_id: the model's, from config.json; None: whatever the tokenizer names.
            vocab_size: the model's: every id must lie below it; None: the largest that a model may have.

        Raises CheckpointError naming the file when it is absent, unreadable or not byte-level, when it has an id that
        the model does not have, when it names another BOS than the model, or when it lacks the model's.
        """
        given = Path(path)
        file = given / "tokenizer.json" if os.path.isdir(given) else given
        if not os.path.isfile(file):
            raise CheckpointError(f"{shown_path(file)}: no such tokenizer file; a checkpoint needs tokenizer.json")
        content = read_bounded(file, CheckpointError, MAX_TABLE_BYTES)
        description = parse_json_object(content, file, CheckpointError)
        backend = read_tokenizer(content, file, vocab_size)
        if "ByteLevel" not in repr(description.get("decoder")):
            raise CheckpointError(f"{file}: its decoder is not ByteLevel; only byte-level tokenizers are supported")
        tokenizer = cls(backend, _read_config(file.with_name("tokenizer_config.json")), bos_token_id)
        if bos_token_id is not None:
            tokenizer._check_bos(bos_token_id, file)
        return tokenizer

    @property
    def size(self) -> int:
        """Number of ids: one more than the largest id of the vocabulary and the added tokens."""
        return self._size

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids of added tokens marked special."""
        return self._special_ids

    @property
    def bos_token_id(self) -> int | None:
        """Id of the begin-of-text token, None when neither the tokenizer nor the model names one."""
        return self._bos_token_id

    def _check_bos(self, wanted: int, file: Path) -> None:
        if self._bos_token_id != wanted:
            raise CheckpointError(
                f"{file.with_name('tokenizer_config.json')}: bos_token has the id {self._bos_token_id}, but "
                f"config.json says bos_token_id = {wanted}: mend the one that is wrong"
            )
        if self._backend.id_to_token(wanted) is None:
            raise CheckpointError(f"{file}: it has no token {wanted}, which config.json calls bos_token_id")

    def _named_id(self, name: str) -> int | None:
        value = self._config.get(name)
        content = value.get("content") if isinstance(value, dict) else value
        return None if content is None else self._backend.token_to_id(content)

    def token_to_id(self, token: str) -> int | None:
        """Id of a vocabulary entry or added token, None when there is none."""
        return self._backend.token_to_id(token)

    def added_token_id(self, token: str) -> int | None:
        """Id of an added token (special or not), None when the tokenizer has none of that spelling."""
        return self._added_ids.get(token)

    def id_to_token(self, token_id: int) -> str | None:
        """The vocabulary entry as the tokenizer spells it (byte-level alphabet), None when there is none."""
        return self._backend.id_to_token(token_id)

    def to_json(self) -> str:
        """The tokenizer as the text of a tokenizer.json, for libraries that bring their own reader."""
        return str(self._backend.to_str())

    def encode(self, text: str, *, add_bos: bool = False) -> list[int]:
        """Ids of `text`, markers of special tokens recognised; `add_bos` puts BOS in front unless it is there."""
        if any("\ud800" <= character <= "\udfff" for character in text):
            message = f"the text {text[:40]!r} holds half of a character (a lone surrogate); decode its bytes as UTF-8"
            raise RequestError(message, code="invalid_prompt")
        ids: list[int] = self._backend.encode(text, add_special_tokens=False).ids
        bos = self.bos_token_id
        if add_bos and bos is not None and ids[:1] != [bos]:
            return [bos, *ids]
        return ids

    def encode_prompt(self, text: str) -> list[int]:
        """Ids of a text prompt: markers recognised, BOS added unless present."""
        return self.encode(text, add_bos=True)

    def encode_pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """Ids of a context and of its continuation, split as lm-evaluation-harness does.

        Trailing white space of the context moves to the continuation; the continuation's ids are those of the joined
        text behind as many ids as the context alone has. The context starts with BOS unless it has one, so an empty
        context is BOS alone.
        """
        stripped = context.rstrip()
        continuation = context[len(stripped) :] + continuation
        context_ids = self.encode_prompt(stripped)
        whole_ids = self.encode_prompt(stripped + continuation)
        return context_ids, whole_ids[len(context_ids) :]

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        """Text of `ids`; ids that the tokenizer does not have give nothing."""
        return self.decode_bytes(ids, skip_special_tokens).decode("utf-8", errors="replace")

    def decode_bytes(self, ids: Sequence[int], skip_special_tokens: bool = False) -> bytes:
        """The joined bytes of `ids`, which may end inside a character."""
        hidden = self._special_ids if skip_special_tokens else ()
        return b"".join(self._pieces[i] for i in ids if 0 <= i < self._size and i not in hidden)

    def text_pieces(self, num_ids: int) -> list[bytes]:
        """Bytes of the ids below `num_ids`; empty for special tokens, which stand for no text."""
        return [b"" if i in self._special_ids else piece for i, piece in enumerate(self._pieces[:num_ids])]

    def decode_token(self, token_id: int) -> str:
        """Text of one token alone (cached); incomplete characters show as U+FFFD."""
        return self._decode_one(int(token_id))

    def _decode_single(self, token_id: int) -> str:
        return self.decode([token_id])

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.to_json(), self._config, self._bos_token_id)


def _restore(description: str, config: dict[str, Any], bos_token_id: int | None) -> Tokenizer:
    return Tokenizer(tokenizers.Tokenizer.from_str(description), config, bos_token_id)


def _read_config(file: Path) -> dict[str, Any]:
    if not os.path.isfile(file):
        return {}
    config = read_json_object(file, CheckpointError)
    for name in _NAMED_TOKENS:
        value = config.get(name)
        content = value.get("content") if isinstance(value, dict) else value
        if content is not None and not isinstance(content, str):
            expectation = "a text, or an object with a text content"
            raise CheckpointError(f"{file}: {name} = {shown_value(value)}: expected {expectation}")
    return config
