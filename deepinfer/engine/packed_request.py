"""A request as it goes to another process."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deepinfer.core.engine_request import EngineRequest
from deepinfer.engine.wire import Wire
from deepinfer.errors import RequestError


@dataclass(frozen=True, slots=True)
class PackedRequest:
    """Its bytes, beside what it takes to refuse a request that cannot be read there.

    Attributes:
        request_id, prompt_token_ids: see `EngineRequest`.
        data: the whole request.
    """

    request_id: str
    prompt_token_ids: np.ndarray
    data: bytes

    @classmethod
    def of(cls, request: EngineRequest, wire: Wire) -> PackedRequest:
        """RequestError for a request with objects that cannot go to another process."""
        try:
            return cls(request.request_id, request.prompt_token_ids, wire.pack(request))
        except Exception as error:  # whatever a caller's objects raise
            raise _not_portable(error) from error

    def unpacked(self, wire: Wire) -> EngineRequest:
        """In the other process. RequestError for a request with objects that are not found there."""
        try:
            request: EngineRequest = wire.unpack(self.data)
        except Exception as error:  # whatever a caller's modules raise
            raise _not_portable(error) from error
        return request


def _not_portable(error: Exception) -> RequestError:
    return RequestError(
        f"the request cannot go to a worker process: {error}; functions such as logits processors have to be "
        "importable there: at the top level of a module that is on PYTHONPATH, not of the script itself",
        code="request_not_portable",
    )
