"""A piece of work that one process holds, for as long as it lives."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from contextlib import suppress
from pathlib import Path

from deepinfer.batch.atomic_file import write_error


class Claim:
    """A lock on a file. The operating system gives it back when its holder ends, however that happens."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    @classmethod
    def take(cls, path: Path, worker: str, *, wait: bool = False) -> Claim | None:
        """Take a claim, None when a living process holds it.

        Args:
            path: of the lock file; it is made, and never removed.
            worker: written into it, for people.
            wait: until it is free.

        Raises JobWriteError where the file cannot be written.
        """
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise write_error(path, error) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            os.close(handle)
            return None
        except OSError as error:
            os.close(handle)
            raise write_error(path, error) from error
        holder = {"worker": worker, "pid": os.getpid(), "host": socket.gethostname(), "since": int(time.time())}
        with suppress(OSError):  # a full disk: the lock holds all the same
            os.ftruncate(handle, 0)
            os.pwrite(handle, json.dumps(holder).encode("utf-8") + b"\n", 0)
        return cls(handle)

    @staticmethod
    def is_held(path: Path) -> bool:
        """Whether a living process holds the claim."""
        try:
            handle = os.open(path, os.O_RDONLY)
        except OSError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(handle)
        return False

    def release(self) -> None:
        """Give it back."""
        os.close(self._handle)
