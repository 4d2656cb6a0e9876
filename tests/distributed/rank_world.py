"""A world of processes, on CPUs or with a GPU each, that stays alive over many cases: ranks run what they are told."""

from __future__ import annotations

import importlib
import os
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch
from torch.distributed import TCPStore

from deepinfer.envs import child_environment

ROOT = Path(__file__).parents[2]


class RankWorld:
    """Use as a context manager.

    Args:
        size: ranks.
        device: "cpu", or "cuda" for the GPU of its number for each rank.
    """

    def __init__(self, size: int, device: str = "cpu") -> None:
        self.device = device
        self._store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self.size = size
        self.is_broken = False  # some rank has failed, and the others may wait for it
        self._pipes: list[Connection] = []
        self._processes: list[subprocess.Popen] = []
        for rank in range(size):
            ours, theirs = socket.socketpair()
            words = [str(theirs.fileno()), str(self._store.port), str(rank), str(size), device]
            with theirs:
                self._processes.append(
                    subprocess.Popen(
                        [sys.executable, "-m", "tests.distributed.rank_world", *words],
                        pass_fds=[theirs.fileno()],
                        cwd=ROOT,
                        env=child_environment(str(ROOT)) | {"OMP_NUM_THREADS": "1"},
                    )
                )
            self._pipes.append(Connection(ours.detach()))

    def run(self, function: Callable[..., Any], *arguments: Any, seconds: float = 200.0) -> list[Any]:
        """Call a module's function on every rank, its rank first; what each returned. AssertionError if one raises, or
        has not ended after `seconds`.
        """
        end, self.is_broken = time.monotonic() + seconds, True
        for pipe in self._pipes:
            pipe.send((function.__module__, function.__name__, arguments))
        results: dict[int, Any] = {}
        while len(results) < self.size:
            waiting = {pipe: rank for rank, pipe in enumerate(self._pipes) if rank not in results}
            ready = wait(list(waiting), max(0.0, end - time.monotonic()))
            assert ready, f"ranks {sorted(waiting.values())} have not ended {function.__name__} after {seconds:.0f} s"
            for pipe in ready:
                ok, results[waiting[pipe]] = pipe.recv()
                assert ok, f"rank {waiting[pipe]}:\n{results[waiting[pipe]]}"
        self.is_broken = False
        return [results[rank] for rank in range(self.size)]

    def __enter__(self) -> RankWorld:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.kill()
            process.wait()


def device_of(kind: str, rank: int) -> torch.device:
    """Where a rank's tensors are."""
    return torch.device("cuda", rank) if kind == "cuda" else torch.device("cpu")


def main(words: list[str]) -> None:
    from deepinfer.distributed.rank_groups import join_world

    pipe, port, rank, size = map(int, words[:4])
    torch.set_num_threads(1)
    join_world(("127.0.0.1", port), rank, size, device_of(words[4], rank))
    connection = Connection(pipe)
    while True:
        try:
            module, name, arguments = connection.recv()
        except EOFError:
            os._exit(0)
        try:
            connection.send((True, getattr(importlib.import_module(module), name)(rank, *arguments)))
        except Exception:
            connection.send((False, traceback.format_exc()))


if __name__ == "__main__":
    main(sys.argv[1:])
