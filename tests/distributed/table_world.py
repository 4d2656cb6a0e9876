"""Ranks in lock step as threads of this process, without a model: what they launch on their devices meets."""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from deepinfer import SamplingParams
from deepinfer._C import Scheduler
from deepinfer.config.parallel_config import ParallelConfig
from deepinfer.core.launched_step import LaunchedStep
from deepinfer.core.step_plan import StepPlan
from deepinfer.distributed.agreed_step import AgreedStep
from deepinfer.distributed.batch_split import BatchSplit
from deepinfer.engine.input_processor import InputProcessor
from deepinfer.engine.lockstep_engine import LockstepEngine
from deepinfer.engine.overlapped_lockstep_engine import OverlappedLockstepEngine
from deepinfer.engine.prompt_encoder import PromptEncoder
from deepinfer.outputs import RequestOutput
from deepinfer.worker.thread_stream import ThreadStream
from tests.support.table_engine import table_scheduler, table_texts
from tests.support.table_worker import TableWorker, perm

PATIENCE = 30.0  # seconds until ranks that wait for each other are given up


class Meeting:
    """All threads of a world tell each other a value; whoever fails ends all."""

    def __init__(self, size: int) -> None:
        self._values: list[Any] = [None] * size
        self._barrier = threading.Barrier(size, timeout=PATIENCE)

    def tell(self, rank: int, value: Any) -> list[Any]:
        """Everybody's, by rank."""
        self._values[rank] = value
        self._barrier.wait()
        values = list(self._values)
        self._barrier.wait()
        return values

    def end(self) -> None:
        """Nobody waits any more."""
        self._barrier.abort()


class RankTableWorker(TableWorker):
    """Its device is a thread, on which both phases of every step meet those of the other ranks, and must be the same.

    Attributes:
        num_parts, num_skips: forward passes of others' rows alone, and steps that ended without sampling.
        num_linked: plans made over a step in flight.
    """

    def __init__(self, rank: int, meeting: Meeting, agreed: AgreedStep) -> None:
        super().__init__(perm, ThreadStream())
        self._rank, self._meeting, self._agreed = rank, meeting, agreed
        self.num_parts = self.num_skips = self.num_linked = 0

    def launch_forward(self, plan: StepPlan) -> None:
        self.num_linked += plan.previous_step_id >= 0
        super().launch_forward(plan)
        self._meet("forward")

    def launch_sample(self, plan: StepPlan) -> LaunchedStep:
        self._meet("sample")
        return super().launch_sample(plan)

    def take_part(self) -> None:
        self.num_parts += 1
        self._meet("forward")

    def skip_sample(self) -> None:
        self.num_skips += 1
        self._meet("sample")

    def _meet(self, phase: str) -> None:
        what = phase, self._agreed.decode

        def meet() -> None:
            try:
                everybody: set[Hashable] = set(self._meeting.tell(self._rank, what))
                assert len(everybody) == 1, everybody
            except BaseException:
                self._meeting.end()
                raise

        self.stream.launch(meet)


@dataclass
class Rank:
    """One engine and what it hears from the front end."""

    engine: LockstepEngine
    scheduler: Scheduler
    worker: RankTableWorker
    inputs: InputProcessor
    encoder: PromptEncoder
    commands: queue.SimpleQueue[Callable[[], Any] | None] = field(default_factory=queue.SimpleQueue)
    outputs: dict[str, RequestOutput] = field(default_factory=dict)

    def serve(self) -> None:
        """As `ReplicaServer` does."""
        while True:
            while self.engine.is_idle or not self.commands.empty():
                command = self.commands.get(timeout=PATIENCE)
                if command is None:
                    return
                command()
            ready = self.engine.step()
            self.scheduler.check()
            while ready.finished:
                output = ready.finished.popleft()
                self.outputs[output.request_id] = output

    def add(self, name: str, prompt: list[int], params: SamplingParams, error: Exception | None) -> None:
        encoded = self.encoder.encode({"prompt_token_ids": prompt})
        request = self.inputs.generation(name, int(name), encoded, params)
        if error is not None:
            self.worker.errors[request.seq_id] = error
        self.engine.add_request(request)


class TableWorld:
    """Use as a context manager.

    Args:
        overlaps: of each rank, whether it overlaps its steps.
        sizes: of every scheduler, see `table_scheduler`.
    """

    def __init__(self, overlaps: list[bool], **sizes: Any) -> None:
        size = len(overlaps)
        self._votes, self.device = Meeting(size), Meeting(size)
        self.ranks = [self._rank(rank, size, overlaps[rank], sizes) for rank in range(size)]
        self._errors: list[BaseException] = []
        self._threads = [threading.Thread(target=self._serve, args=(rank,), daemon=True) for rank in self.ranks]
        self._wakes = 0

    def send(self, owner: int, command: Callable[[Rank], None], rng: random.Random) -> None:
        """A command to one rank; all are woken, in any order and one perhaps long before another."""
        self._wakes += 1
        wakes, ranks = self._wakes, list(self.ranks)
        rng.shuffle(ranks)
        for rank in ranks:
            if rank is self.ranks[owner]:
                rank.commands.put(lambda: command(self.ranks[owner]))
            rank.commands.put(lambda rank=rank: rank.engine.wake(wakes))
            time.sleep(rng.choice([0.0, 0.0, 0.001]))

    def outputs(self, count: int) -> dict[str, RequestOutput]:
        """Once there are so many."""
        self.wait_until(lambda: sum(len(rank.outputs) for rank in self.ranks) >= count, f"{count} outputs")
        return {name: output for rank in self.ranks for name, output in rank.outputs.items()}

    def await_sleep(self) -> None:
        """Until nobody has work."""
        self.wait_until(
            lambda: all(rank.engine.wakes == self._wakes and rank.engine.is_idle for rank in self.ranks), "sleep"
        )

    def wait_until(self, is_so: Callable[[], bool], what: str) -> None:
        """Fails with the error of a rank, or when it has taken too long."""
        end = time.monotonic() + PATIENCE
        while not is_so():
            self._require(time.monotonic() < end, what)
            time.sleep(0.0005)

    def end(self) -> None:
        """Once all sleep, having heard everything."""
        self.await_sleep()
        for rank in self.ranks:
            rank.commands.put(None)
        for thread in self._threads:
            thread.join(PATIENCE)
            self._require(not thread.is_alive(), "the end of a rank")
        for rank in self.ranks:
            assert not rank.engine._steps and not rank.scheduler.steps_in_flight and not rank.worker.live
            assert rank.scheduler.num_free_blocks == rank.scheduler.config.num_blocks

    def __enter__(self) -> TableWorld:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._votes.end()
        self.device.end()
        for rank in self.ranks:
            rank.commands.put(None)
            rank.engine.close()

    def _serve(self, rank: Rank) -> None:
        try:
            rank.serve()
            rank.engine.drain()
        except BaseException as error:
            self._errors.append(error)
            self._votes.end()
            self.device.end()

    def _require(self, is_right: bool, what: str) -> None:
        if self._errors:
            raise self._errors[0]
        assert is_right, f"waited in vain for {what}"

    def _rank(self, rank: int, size: int, overlaps: bool, sizes: dict[str, Any]) -> Rank:
        agreed, scheduler = AgreedStep(), table_scheduler(**sizes)
        comm = SimpleNamespace(gather_numbers=lambda numbers: np.array(self._votes.tell(rank, numbers)))
        split = BatchSplit("off", size, "cpu")
        groups = SimpleNamespace(sizes=ParallelConfig(data_parallel_size=size), lockstep=comm, split=split, step=agreed)
        worker = RankTableWorker(rank, self.device, agreed)
        encoder, inputs, outputs = table_texts(scheduler)
        kind = OverlappedLockstepEngine if overlaps else LockstepEngine
        return Rank(kind(worker, scheduler, outputs, groups=groups), scheduler, worker, inputs, encoder)
