"""Data on their way between ranks."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar

import torch
import torch.distributed as dist

from deepinfer.distributed.peer_calls import peer_calls

T = TypeVar("T")


class InFlight:
    """A collective that has begun, and what it moves; `wait` before the data are touched.

    Args:
        work: of torch.distributed.
        sent, received: both stay as they are until it has ended.
        name: what it is for, in a trace.
    """

    def __init__(self, work: dist.Work, sent: torch.Tensor, received: torch.Tensor, name: str) -> None:
        self.name = name
        self._work = work
        self._sent: torch.Tensor | None = sent
        self._received = received

    def wait(self) -> torch.Tensor:
        """What came. On a GPU the current stream waits, not the caller. PeerLostError when a peer is gone."""
        with peer_calls():
            self._work.wait()
        self._sent = None
        return self._received

    def call_behind(self, function: Callable[[], None]) -> None:
        """Call it once, when the data have come; on a GPU at once, with a current stream that waits for them."""
        self._work.get_future().then(lambda _: function())


Turns: TypeAlias = Generator[InFlight, torch.Tensor, T]
"""A computation that other ranks take part in: yields what of it is on its way, is sent what came, and returns a T."""
