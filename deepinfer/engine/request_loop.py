"""What a call's requests need of whatever runs them: one engine in this process, or workers elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from deepinfer.core.engine_request import EngineRequest
from deepinfer.engine.mailbox import Mailbox
from deepinfer.engine.prefix_handle import PrefixHandle
from deepinfer.outputs import RequestOutput


class RequestLoop(Protocol):
    """Implemented by `SyncLoop` and `ReplicaLoop`. Calls may be open at once, in several threads."""

    def add(self, request: EngineRequest, prompt: str | None, prompt_index: int, mailbox: Mailbox) -> None:
        """Queue a request whose outputs go to `mailbox`. May raise RequestError."""
        ...

    def refuse(
        self, request_id: str, error: Exception, prompt: str | None, prompt_token_ids: list[int]
    ) -> RequestOutput:
        """The output of a request that cannot run."""
        ...

    def grammar_error(self, request: EngineRequest) -> Exception | None:
        """What is wrong with the grammar of a request that was not added yet."""
        ...

    def save_prefix(self, request_id: str) -> PrefixHandle:
        """Keep a request's cache blocks."""
        ...

    def prefix_id_of(self, handle: PrefixHandle | None) -> int | None:
        """Number of a saved prefix of this engine."""
        ...

    def is_unfinished(self, request_id: str) -> bool:
        """Whether the id is in use."""
        ...

    def advance(self, mailbox: Mailbox) -> None:
        """Let time go on until something may have come for the mailbox."""
        ...

    def abort(self, request_ids: Iterable[str]) -> None:
        """End requests early; from any thread, idempotent."""
        ...

    def discard(self, request_ids: Iterable[str], mailbox: Mailbox) -> None:
        """End what is left of the call that owns `mailbox`."""
        ...

    def close(self) -> None:
        """Give everything back; what was unfinished is lost."""
        ...
