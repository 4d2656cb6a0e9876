"""One worker process as its front end sees it."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import deepinfer
from deepinfer.engine.wire import Wire
from deepinfer.engine.worker_spec import WorkerSpec
from deepinfer.envs import child_environment
from deepinfer.text.tokenizer import Tokenizer

_END_SECONDS: Final = 5.0


class WorkerProcess:
    """Started as ``python -m deepinfer.worker`` with its end of a pipe; gets its spec over it.

    Attributes:
        rank: of the worker.
        wire: to and from it.
    """

    def __init__(self, spec: WorkerSpec, wire: Wire, process: subprocess.Popen[bytes] | None) -> None:
        self.rank = spec.rank
        self.wire = wire
        self._process = process
        wire.send(spec)

    @classmethod
    def start(cls, spec: WorkerSpec, tokenizer: Tokenizer) -> WorkerProcess:
        """Start a worker on this machine."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = run_worker(theirs)
        return cls(spec, Wire(Connection(ours.detach()), tokenizer), process)

    @classmethod
    def join(cls, spec: WorkerSpec, pipe: Connection, tokenizer: Tokenizer) -> WorkerProcess:
        """Take in a worker that another process has started, perhaps on another machine."""
        return cls(spec, Wire(pipe, tokenizer), None)

    def how_it_ended(self) -> str:
        """For a message, once its end of the pipe is closed."""
        if self._process is None:
            return "its connection was lost"
        try:
            code = self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            return "its connection was lost"
        if code >= 0:
            return f"its process ended with exit code {code}"
        names = {number.value: number.name for number in signal.Signals}
        return f"its process was killed by signal {-code} ({names.get(-code, 'a real-time signal')})"

    def wait(self, seconds: float) -> None:
        """Until the process has ended, but not longer."""
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)

    def kill(self) -> None:
        """End the process now, whatever it does; idempotent. One on another machine ends as its pipe is closed."""
        self.end()
        self.wire.connection.close()

    def end(self) -> None:
        """The same, with this end of the pipe left open: somebody may be reading it."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def run_worker(pipe: socket.socket) -> subprocess.Popen[bytes]:
    """Start a worker process with its end of a pipe, in a session of its own: Ctrl-C reaches the front end alone."""
    return subprocess.Popen(
        [sys.executable, "-m", "deepinfer.worker", str(pipe.fileno())],
        pass_fds=[pipe.fileno()],
        stdin=subprocess.DEVNULL,
        env=child_environment(str(Path(deepinfer.__file__).parents[1])),
        start_new_session=True,
    )
