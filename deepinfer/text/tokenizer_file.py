"""A tokenizer.json as the `tokenizers` library holds it, its ids bounded before any table is made of them."""

from __future__ import annotations

from pathlib import Path

import tokenizers

from deepinfer.config.size_limits import SIZE_LIMITS
from deepinfer.errors import CheckpointError
from deepinfer.shown_value import shown_value


def read_tokenizer(content: bytes, file: str | Path, vocab_size: int | None = None) -> tokenizers.Tokenizer:
    """The tokenizer in the bytes of `file`.

    Args:
        content: of the file.
        file: named in errors.
        vocab_size: ids must be smaller; None: the largest vocabulary that a model may have.

    Raises CheckpointError when the library cannot read it, and for an id outside, naming token and id.
    """
    try:
        backend = tokenizers.Tokenizer.from_str(content.decode("utf-8"))
    except BaseException as error:  # the library raises bare Exception; its panics are not even that
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise CheckpointError(f"{file}: not a readable tokenizer.json: {shown_value(str(error))}") from error
    limit = SIZE_LIMITS["vocab_size"] if vocab_size is None else vocab_size
    token, token_id = max(backend.get_vocab(with_added_tokens=True).items(), key=lambda item: item[1], default=("", -1))
    if token_id >= limit:
        owner = "a model may have" if vocab_size is None else "of config.json"
        raise CheckpointError(
            f"{file}: token {shown_value(token)} has the id {token_id}, outside the vocab_size {owner} ({limit})"
        )
    return backend
