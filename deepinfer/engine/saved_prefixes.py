"""The saved prefixes of one engine: made from requests, looked up for prompts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from deepinfer._C import Scheduler
from deepinfer.engine.prefix_handle import PrefixHandle
from deepinfer.errors import RequestError

_MIN_REMEMBERED: Final = 1024  # requests, before those that cannot be saved any more are looked for


class SavedPrefixes:
    """Knows the sequence of every request that could be saved, and which handles are this engine's."""

    def __init__(self, scheduler: Scheduler, is_unfinished: Callable[[str], bool]) -> None:
        """Args:
        scheduler: holds the blocks.
        is_unfinished: whether a request id is in use; the scheduler does not know requests that wait for a grammar.
        """
        self._scheduler = scheduler
        self._is_unfinished = is_unfinished
        self._seq_ids: dict[str, int] = {}  # request id -> sequence of choice 0
        self._max_remembered = _MIN_REMEMBERED
        self._handles: dict[int, PrefixHandle] = {}

    def note(self, request_id: str, seq_id: int) -> None:
        """Remember a request that has entered the engine, for as long as it can be saved."""
        self._seq_ids[request_id] = seq_id
        if len(self._seq_ids) > self._max_remembered:
            self._seq_ids = {
                known: seq_id
                for known, seq_id in self._seq_ids.items()
                if self._is_unfinished(known) or self._scheduler.is_in_caches(seq_id)
            }
            self._max_remembered = max(_MIN_REMEMBERED, 2 * len(self._seq_ids))

    def save(self, request_id: str) -> PrefixHandle:
        """Keep what choice 0 of a request has in the caches. RequestError when it is not there any more."""
        if request_id not in self._seq_ids:
            message = f"request {request_id!r} is not known, or not any more: save it while it runs or soon afterwards"
            raise RequestError(message, code="prefix_not_found")
        try:
            prefix_id = self._scheduler.save_prefix(self._seq_ids[request_id])
        except ValueError as error:
            raise RequestError(f"request {request_id!r} cannot be saved: {error}", code="prefix_not_saved") from error
        handle = PrefixHandle(prefix_id, self._scheduler.prefix_token_ids(prefix_id), self._close)
        self._handles[prefix_id] = handle
        return handle

    def id_of(self, handle: PrefixHandle | None) -> int | None:
        """The prefix's number; None for None. RequestError for a closed handle or one of another engine."""
        if handle is None:
            return None
        if self._handles.get(handle.prefix_id) is not handle:
            reason = "was closed" if handle.is_closed else "belongs to another LLM"
            raise RequestError(f"the prefix of the prompt {reason}: save it again", code="prefix_not_found")
        return handle.prefix_id

    def require_open(self, prefix_id: int | None) -> None:
        """RequestError when the prefix of a request was closed before the request began; None passes."""
        if prefix_id is not None and prefix_id not in self._handles:
            message = "the prefix of the prompt was closed before the request began: close it later"
            raise RequestError(message, code="prefix_not_found")

    def _close(self, prefix_id: int) -> None:
        self._handles.pop(prefix_id, None)
        self._scheduler.close_prefix(prefix_id)
