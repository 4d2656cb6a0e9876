"""The world of processes that ``torchrun`` has started: rank 0 is the front end, every rank has a worker."""

from __future__ import annotations

import os
import secrets
import socket
import time
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection, Listener
from typing import Final, cast

from torch.distributed import Store  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from deepinfer.engine.worker_process import run_worker
from deepinfer.envs import torchrun_variables
from deepinfer.errors import ConfigError

_KEY: Final = "deepinfer/front_end"
_NUM_KEY: Final = "deepinfer/num_front_ends"
_TELL_SECONDS: Final = 5.0  # that rank 0 has to tell what a worker broke, before torchrun ends everything


@dataclass(frozen=True, slots=True)
class TorchrunWorld:
    """One process's place in it. Of the scripts that all ranks run, only that of rank 0 gets behind the constructor of
    `LLM`; the others serve it there, and end with it.

    Attributes:
        rank, world_size: of this process.
        local_rank, num_local: among those of its machine.
        address: of rank 0's machine.
    """

    rank: int
    world_size: int
    local_rank: int
    num_local: int
    address: str

    @classmethod
    def find(cls) -> TorchrunWorld | None:
        """From the variables that torchrun sets; None where it did not start this process."""
        variables = torchrun_variables()
        if variables is None:
            return None
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
        rank, world_size, local_rank, num_local = (int(variables[name]) for name in names)
        return cls(rank, world_size, local_rank, num_local, variables["MASTER_ADDR"])

    def require_size(self, num_ranks: int) -> None:
        """ConfigError unless the options ask for as many ranks as there are."""
        if num_ranks != self.world_size:
            raise ConfigError(
                f"data_parallel_size x context_parallel_size = {num_ranks}, but torchrun has started "
                f"{self.world_size} processes: make them equal"
            )

    def accept(self) -> dict[int, Connection]:
        """On rank 0: the pipes to the workers of the other ranks, by rank. Waits for all of them.

        ConfigError the second time: the others serve the first `LLM` and end with it.
        """
        store = self._store()
        if store.add(_NUM_KEY, 1) > 1:
            raise ConfigError(
                "a second LLM of several ranks in one torchrun world, which serves one: keep the first, or start the "
                "second from a script of its own"
            )
        secret = secrets.token_bytes(32)
        pipes: dict[int, Connection] = {}
        with Listener((self.address, 0), authkey=secret) as listener:
            port = cast("tuple[str, int]", listener.address)[1]
            store.set(_KEY, f"{port}:{secret.hex()}")
            while len(pipes) < self.world_size - 1:
                pipe = listener.accept()
                pipes[int(pipe.recv())] = pipe
        return pipes

    def serve(self) -> int:
        """On any other rank: run this rank's worker until the front end closes; its exit code."""
        port, secret = self._store().get(_KEY).decode().split(":")
        with Client((self.address, int(port)), authkey=bytes.fromhex(secret)) as pipe:
            pipe.send(self.rank)
            with socket.socket(fileno=os.dup(pipe.fileno())) as end:
                process = run_worker(end)
        code = process.wait()
        if code:
            time.sleep(_TELL_SECONDS)
        return code

    @staticmethod
    def _store() -> Store:
        store: Store = next(rendezvous("env://"))[0]
        return store
