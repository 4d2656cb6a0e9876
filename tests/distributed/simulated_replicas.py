"""Replicas in simulated time: continuous batching, a step of fixed time plus a time per row."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Request:
    prompt: int
    length: int
    max_tokens: int
    done: int = 0


@dataclass(frozen=True)
class Speed:
    """Of one replica."""

    step_ms: float
    row_ms: float
    seats: int
    cache_tokens: int


@dataclass
class Replica:
    """Runs what it has been given, first come first served, within its seats and its cache."""

    speed: Speed
    clock: float = 0.0
    waiting: deque[Request] = field(default_factory=deque)
    running: list[Request] = field(default_factory=list)

    def step(self) -> list[Request]:
        """One step: every running request gets a token (a new one its prompt too). Returns those that ended."""
        rows = 0
        while self.waiting and len(self.running) < self.speed.seats and self._fits(self.waiting[0]):
            self.running.append(self.waiting.popleft())
            rows += self.running[-1].prompt
        for request in self.running:
            request.done += 1
        rows += len(self.running)
        self.clock += self.speed.step_ms + self.speed.row_ms * rows
        ended = [request for request in self.running if request.done == request.length]
        self.running = [request for request in self.running if request.done < request.length]
        return ended

    def _fits(self, request: Request) -> bool:
        held = sum(r.prompt + r.length for r in self.running)
        return not self.running or held + request.prompt + request.length <= self.speed.cache_tokens

    @property
    def is_idle(self) -> bool:
        return not self.waiting and not self.running


def makespan(
    requests: list[Request],
    replicas: list[Replica],
    assign: Callable[[Request], int | None],
    finish: Callable[[int, Request], None],
) -> float:
    """Milliseconds until all requests, which are there from the start, have ended."""
    pending = deque(requests)
    while True:
        while pending and (target := assign(pending[0])) is not None:
            replica = replicas[target]
            if replica.is_idle:  # it has waited until now
                replica.clock = max(replica.clock, min(r.clock for r in replicas if r is replica or not r.is_idle))
            replica.waiting.append(pending.popleft())
        busy = [number for number, replica in enumerate(replicas) if not replica.is_idle]
        if not busy:
            assert not pending
            return max(replica.clock for replica in replicas)
        number = min(busy, key=lambda n: replicas[n].clock)
        for request in replicas[number].step():
            finish(number, request)


def lower_bound(requests: list[Request], num_replicas: int, speed: Speed) -> float:
    """No schedule can end earlier: all seats filled in every step, or the longest request alone from the start."""
    prompt_rows = sum(request.prompt for request in requests)
    tokens = sum(request.length for request in requests)
    filled = (prompt_rows * speed.row_ms + tokens * (speed.step_ms / speed.seats + speed.row_ms)) / num_replicas
    alone = max(r.length * (speed.step_ms + speed.row_ms) + r.prompt * speed.row_ms for r in requests)
    return max(filled, alone)


def pooled_makespan(requests: list[Request], num_replicas: int, speed: Speed) -> float:
    """In the given order, with what no balancer has: after every step all work moves, at no cost, to be even again."""
    waiting, running, clock = deque(requests), [], 0.0
    while waiting or running:
        rows = 0.0
        while waiting and len(running) < num_replicas * speed.seats:
            running.append(waiting.popleft())
            rows += running[-1].prompt
        for request in running:
            request.done += 1
        clock += speed.step_ms + speed.row_ms * (rows + len(running)) / num_replicas
        running = [request for request in running if request.done < request.length]
    return clock
