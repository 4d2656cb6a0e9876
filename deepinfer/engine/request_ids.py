"""Public ids of requests: the caller's own, or running numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

from deepinfer.errors import RequestError


class RequestIds:
    """Gives every request of an engine an id that no unfinished request has."""

    def __init__(self, in_use: Callable[[str], bool]) -> None:
        """`in_use` tells whether an unfinished request has an id."""
        self._in_use = in_use
        self._numbers = itertools.count()

    def take(self, num_requests: int, given: Any) -> list[str]:
        """Ids of one call's requests.

        Args:
            num_requests: how many.
            given: the caller's ids, one per request; None: decimal numbers that go on over all calls.

        Raises RequestError: codes length_mismatch, invalid_request_id, duplicate_request_id.
        """
        if given is None:
            free = (str(number) for number in self._numbers if not self._in_use(str(number)))
            return list(itertools.islice(free, num_requests))
        if not isinstance(given, Iterable):
            message = f"request_ids is a {type(given).__name__}; expected a list with a text per prompt, or None"
            raise RequestError(message, code="invalid_request_id")
        ids = [given] if isinstance(given, str) else list(given)
        if len(ids) != num_requests:
            raise RequestError(f"{num_requests} prompts but {len(ids)} request_ids", code="length_mismatch")
        seen: set[str] = set()
        for place, request_id in enumerate(ids):
            if not isinstance(request_id, str) or not request_id:
                raise RequestError(
                    f"request_ids[{place}] is {request_id!r}; expected a text", code="invalid_request_id"
                )
            if request_id in seen or self._in_use(request_id):
                message = f"request_ids[{place}] is {request_id!r}, which another unfinished request has"
                raise RequestError(message, code="duplicate_request_id")
            seen.add(request_id)
        return ids
