"""Where the time of decode steps goes, on a rank of `bench/wide_ep.py`: on the device, and on the host by phase."""

from __future__ import annotations

import statistics
from typing import Any

import torch

from bench import wide_ep_ranks as ranks
from deepinfer.profile.host_trace import HostTrace
from deepinfer.profile.span import Span

# Without overlap launches and waits are "execute".
PHASES = ("vote", "schedule", "launch forward", "execute", "wait", "update", "emit", "launch sample")


def breakdown(rank: int, batch: int, length: int, num_tokens: int) -> dict[str, float]:
    """Medians over the decode steps of one traced run, milliseconds.

    `device_ms`: between the events before and behind forward pass and sampling. `outside_ms`: the rest of the step.
    `vote_ms` and so on: the host's phases, of which "execute" is waiting for the device for the most part; 0 for what a
    loop does not have.
    """
    engine = ranks.kept()["runtime"].engine
    engine.trace = trace = HostTrace()
    ranks.generate(rank, batch, length, num_tokens)
    engine.trace = None
    steps = [span for span in trace.spans if span.lane == "host" and span.name == "step"]
    steps = steps[1 + ranks.SKIPPED : num_tokens - ranks.SKIPPED]
    others = [span for span in trace.spans if span.lane in ("host", "device") and span.name != "step"]
    found = [_of_step(step, others) for step in steps]
    return {name: statistics.median(parts[name] for parts in found) for name in found[0]}


def _of_step(step: Span, others: list[Span]) -> dict[str, float]:
    def inside(lane: str, *names: str) -> float:
        shares = (
            min(span.end, step.end) - max(span.begin, step.begin)
            for span in others
            if span.lane == lane and span.name in names
        )
        return sum(max(0, share) for share in shares) / 1e6

    device = inside("device", "forward", "sample")
    outside = (step.end - step.begin) / 1e6 - device
    parts = {"device_ms": device, "sample_ms": inside("device", "sample"), "outside_ms": outside}
    return parts | {f"{name.replace(' ', '_')}_ms": inside("host", name) for name in PHASES}


def votes(rank: int, device: str, num_ranks: int) -> dict[str, Any]:
    """What it takes to tell all ranks six numbers: over shared memory if there is any, and over gloo."""
    comm = ranks.comm_of(rank, device, num_ranks)
    place, found = torch.device("cpu"), {}
    board = comm._board
    for name, way in (("board_us", board), ("gloo_us", None)):
        comm._board = way
        if name == "gloo_us" or board is not None:
            found[name] = ranks.microseconds(place, lambda: comm.gather_numbers([1] * 6), 200)
    comm._board = board
    return found
