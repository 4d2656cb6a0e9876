"""A saved prefix, as callers hold it."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

import numpy as np


class PrefixHandle:
    """Keeps the cache blocks of a text, so that later prompts need not compute it again. Made by `LLM.save_prefix`.

    Its blocks are nobody else's until `close`, the end of a ``with`` block, or the end of the LLM. Requests that began
    on it before go on.

    Attributes:
        prefix_id: number of the prefix in its engine.
        token_ids: int32 [num_tokens] the text: prompt and generated tokens that are in the caches.
    """

    def __init__(self, prefix_id: int, token_ids: np.ndarray, close: Callable[[int], object]) -> None:
        self.prefix_id = prefix_id
        self.token_ids = token_ids
        self._close = close
        self._closed = False

    @property
    def num_tokens(self) -> int:
        """Tokens of the text."""
        return len(self.token_ids)

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def close(self) -> None:
        """Give the blocks back; idempotent, from any thread."""
        if not self._closed:
            self._close(self.prefix_id)  # idempotent too; first, so that nothing is lost when it is interrupted
            self._closed = True

    def __enter__(self) -> PrefixHandle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
