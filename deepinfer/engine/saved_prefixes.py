"""The saved prefixes of one engine: made from requests, looked up for prompts."""

from __future__ import annotations

from typing import Final

from deepinfer._C import Scheduler
from deepinfer.engine.prefix_handle import PrefixHandle
from deepinfer.errors import RequestError

_MAX_REMEMBERED: Final = 4096  # requests


class SavedPrefixes:
    """Knows the sequence of each of the latest requests and which handles are this engine's."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._seq_ids: dict[str, int] = {}  # request id -> sequence of choice 0, the latest request last
        self._handles: dict[int, PrefixHandle] = {}

    def note(self, request_id: str, seq_id: int) -> None:
        """Remember a request that has entered the engine."""
        self._seq_ids.pop(request_id, None)
        self._seq_ids[request_id] = seq_id
        if len(self._seq_ids) > _MAX_REMEMBERED:
            del self._seq_ids[next(iter(self._seq_ids))]

    def save(self, request_id: str) -> PrefixHandle:
        """Keep what choice 0 of a request has in the caches. RequestError when it is not there any more."""
        if request_id not in self._seq_ids:
            raise RequestError(f"request {request_id!r} is not known (any more)", code="prefix_not_found")
        try:
            prefix_id = self._scheduler.save_prefix(self._seq_ids[request_id])
        except ValueError as error:
            message = f"request {request_id!r} cannot be saved: {error}; save it sooner, or raise kv_cache_bytes"
            raise RequestError(message, code="prefix_not_saved") from error
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

    def _close(self, prefix_id: int) -> None:
        self._handles.pop(prefix_id, None)
        self._scheduler.close_prefix(prefix_id)
