"""Why a worker process ended before it was told to."""

from __future__ import annotations

import pickle
import traceback
from dataclasses import dataclass

from deepinfer.errors import DeepInferError, PeerLostError, WorkerFailedError


@dataclass(frozen=True, slots=True)
class WorkerFailure:
    """Made by the worker process from its exception, or by the front end when the process is gone.

    Attributes:
        rank: of the worker.
        reason: its exception with type and message, or how its process ended.
        trace: the traceback; empty without an exception.
        is_consequence: whether it failed because another rank was gone.
        mistake: the exception itself, where it tells a user's mistake.
    """

    rank: int
    reason: str
    trace: str = ""
    is_consequence: bool = False
    mistake: DeepInferError | None = None

    @classmethod
    def of(cls, rank: int, error: BaseException) -> WorkerFailure:
        """From an exception, in the process that it broke."""
        reason = "".join(traceback.format_exception_only(error)).strip()
        trace = "".join(traceback.format_exception(error))
        mistake = error if isinstance(error, DeepInferError) and _can_travel(error) else None
        return cls(rank, reason, trace, isinstance(error, PeerLostError), mistake)

    def error(self) -> WorkerFailedError:
        """What callers get."""
        message = f"worker rank {self.rank} failed, which ended all workers of this LLM; build a new one: {self.reason}"
        error = WorkerFailedError(message, self.rank)
        if self.trace:
            error.add_note(f"in worker rank {self.rank}:\n{self.trace}")
        return error


def _can_travel(error: DeepInferError) -> bool:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever its parts raise
        return False
    return True
