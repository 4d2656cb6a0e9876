"""Takes a worker process's commands off its pipe as they come, so that the front end never waits to send one."""

from __future__ import annotations

import os
import queue
import threading
from typing import Final

from deepinfer.engine.wire import Wire
from deepinfer.engine.worker_command import WorkerCommand

_ORPHANED: Final = 70  # exit code
_LOOK_SECONDS: Final = 1.0  # from one look at the parent process to the next


class CommandQueue:
    """A thread of its own reads. When the front end is gone, in whatever way, it ends the process at once, also one
    that computes or waits for other ranks: no worker outlives its front end. Where children that the front end has
    forked keep the other end of the pipe open, that the parent process is another one tells it, within a second.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._parent = os.getppid()
        self._commands: queue.SimpleQueue[WorkerCommand] = queue.SimpleQueue()
        self._closing = threading.Event()
        threading.Thread(target=self._read, name="deepinfer-commands", daemon=True).start()

    def is_closing(self, seconds: float = 0.0) -> bool:
        """Whether the front end has asked for the end, also behind commands that were not taken yet, or does so in the
        next seconds.
        """
        return self._closing.wait(seconds)

    def take(self, wait: bool) -> list[WorkerCommand]:
        """All commands that are there, in order; with `wait` at least one."""
        taken = [self._commands.get()] if wait else []
        while not self._commands.empty():
            taken.append(self._commands.get())
        return taken

    def _read(self) -> None:
        try:
            while not self._closing.is_set():
                while not self._wire.connection.poll(_LOOK_SECONDS):
                    if os.getppid() != self._parent:
                        os._exit(_ORPHANED)
                command = self._wire.receive()
                if command.kind == "close":
                    self._closing.set()
                self._commands.put(command)
        except (EOFError, OSError):
            os._exit(_ORPHANED)
