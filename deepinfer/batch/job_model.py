"""What a job knows of its model without loading weights: files, tokenizer, prompt format, defaults."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.config.strict_json import shown_path
from deepinfer.engine.generation_defaults import GenerationDefaults
from deepinfer.engine.model_path import resolve_model_path
from deepinfer.errors import JobError
from deepinfer.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from deepinfer.text.chat_format import ChatFormat

_SMALL_FILES: Final = ("config.json", "generation_config.json", "model.safetensors.index.json")
_TOKENIZER_FILES: Final = ("tokenizer.json", "tokenizer_config.json")
_MAX_HEADER: Final = 100_000_000
_NUM_PIECES: Final = 256  # of a file; another training run changes nearly all bytes, of some tensors at least
_PIECE_BYTES: Final = 256


@dataclass(frozen=True)
class JobModel:
    """Made by `read`.

    Attributes:
        config: of the checkpoint.
        tokenizer: of the checkpoint, or the other one that was named.
        defaults: sampling and chat defaults of the checkpoint.
        identity: what tells this model from another: names of files, and sha256 of them, of weight files of the header,
            the size and pieces.
    """

    config: DeepSeekV41Config
    tokenizer: Tokenizer
    defaults: GenerationDefaults
    identity: dict[str, str]

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> JobModel:
        """Read a model's files.

        Args:
            options: model, revision, tokenizer, generation_config and load_format as `LLM` takes them.

        Raises CheckpointError for files that are missing or wrong.
        """
        directory = resolve_model_path(options.get("model"), options.get("revision"))
        named = options.get("tokenizer")
        texts = directory if named is None else resolve_model_path(named, None, "tokenizer")
        config = DeepSeekV41Config.from_path(directory)
        use_params = (options.get("generation_config") or "auto") == "auto"
        return cls(
            config,
            Tokenizer.from_path(texts, config.bos_token_id, config.vocab_size),
            GenerationDefaults.read(directory, use_params=use_params, vocab_size=config.vocab_size),
            _identity(directory, texts, has_weights=options.get("load_format") != "dummy"),
        )

    @cached_property
    def chat_format(self) -> ChatFormat:
        """The prompt format of conversations; its library loads on first use."""
        from deepinfer.text.chat_format import ChatFormat

        return ChatFormat(self.tokenizer, self.defaults.chat)

    def require_same(self, wanted: Mapping[str, str]) -> None:
        """Raise JobError, naming the file, when this is not the model of a job whose identity is `wanted`."""
        for name in sorted({*self.identity, *wanted}):
            if self.identity.get(name) != wanted.get(name):
                raise JobError(
                    f"the model's {name} is another one than when the job began: put the old one back, or begin "
                    "another job in a new directory"
                )


def _identity(directory: Path, texts: Path, *, has_weights: bool) -> dict[str, str]:
    found = {name: _file_hash(directory / name) for name in _SMALL_FILES if (directory / name).is_file()}
    files = [texts] if texts.is_file() else [texts / name for name in _TOKENIZER_FILES]
    found |= {f"tokenizer/{path.name}": _file_hash(path) for path in files if path.is_file()}
    if has_weights:
        found |= {path.name: _weights_hash(path) for path in sorted(directory.glob("*.safetensors"))}
    return found


def _file_hash(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _weights_hash(path: Path) -> str:
    """Of a weight file's header, its size, and pieces of all of it: every byte of a full model would take minutes."""
    with open(path, "rb") as file:
        size, length = os.fstat(file.fileno()).st_size, int.from_bytes(file.read(8), "little")
        if length > _MAX_HEADER:
            raise JobError(f"{shown_path(path)}: no safetensors file (a header of {length:,} bytes)")
        digest = hashlib.sha256(file.read(length) + size.to_bytes(8, "little"))
        for piece in range(_NUM_PIECES):
            file.seek(8 + length + max(size - 8 - length, 0) * piece // _NUM_PIECES)
            digest.update(file.read(_PIECE_BYTES))
    return digest.hexdigest()
