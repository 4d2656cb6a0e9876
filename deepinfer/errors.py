"""Errors a user can meet: each names the offending value and what to do about it."""

from __future__ import annotations


class DeepInferError(Exception):
    """Base of every error that a user's input, file or setting can cause."""


class ConfigError(DeepInferError, ValueError):
    """A model config or an engine setting is wrong; the message names the field, its value and the expectation."""


class CheckpointError(DeepInferError):
    """A checkpoint is unreadable or inconsistent; the message names the file and the tensor."""


class RequestError(DeepInferError, ValueError):
    """One request is wrong; only that request fails.

    Attributes:
        code: stable short name of the mistake, e.g. ``"empty_prompt"``.
    """

    def __init__(self, message: str, *, code: str = "invalid_request") -> None:
        super().__init__(message)
        self.code = code


class UnsupportedFeatureError(DeepInferError, NotImplementedError):
    """A documented feature that this version does not have yet; the message names it."""


class EngineClosedError(DeepInferError, RuntimeError):
    """The engine was used after ``close()``."""


class DeviceSyncError(DeepInferError, RuntimeError):
    """A fault of this library: a call that waits for the GPU where a step is handed over; the message has its place."""


class PeerLostError(DeepInferError, RuntimeError):
    """A rank of this engine's world is gone, so that what the others wait for never comes."""


class WorkerFailedError(DeepInferError, RuntimeError):
    """A worker process of an engine failed, which ended all of them; build a new LLM. A note has its traceback.

    Attributes:
        rank: of the worker that failed first.
    """

    def __init__(self, message: str, rank: int) -> None:
        super().__init__(message, rank)
        self.rank = rank

    def __str__(self) -> str:
        return str(self.args[0])


class JobError(DeepInferError, ValueError):
    """A batch job cannot begin or go on as it is; the message names the file and what to do. Nothing done is lost."""


class JobWriteError(JobError):
    """A file of a batch job cannot be written (a full disk, a read-only directory); what was written stays valid."""
