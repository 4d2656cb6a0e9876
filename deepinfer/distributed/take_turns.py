"""Runs computations that other ranks take part in, each while data of the others are on their way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from deepinfer.distributed.exchange_log import ExchangeLog
from deepinfer.distributed.in_flight import InFlight, Turns

T = TypeVar("T")


def take_turns(parts: Sequence[Turns[T]], log: ExchangeLog | None = None) -> list[T]:
    """What each of the parts returns.

    They go on in a fixed order, always up to the next exchange: so all ranks, which run as many parts with as many
    exchanges, begin their collectives in the same order. An exception of one ends all.

    Args:
        parts: not begun.
        log: notes who does what and when, if it is on.
    """
    flights: list[InFlight | None] = [None] * len(parts)
    results: dict[int, T] = {}
    noted = log if log is not None and log.is_on else None
    try:
        while len(results) < len(parts):
            for number, part in enumerate(parts):
                if number not in results:
                    try:
                        flights[number] = _go_on(part, number, flights[number], noted)
                    except StopIteration as end:
                        results[number] = end.value
    finally:
        for part in parts:
            part.close()
    return [results[number] for number in range(len(parts))]


def _go_on(part: Turns[T], number: int, flight: InFlight | None, log: ExchangeLog | None) -> InFlight:
    """One turn: wait for what is on its way, and compute until something else is."""
    if log is None:
        return next(part) if flight is None else part.send(flight.wait())
    begin = log.mark()
    came = None if flight is None else flight.wait()
    if flight is not None:
        log.note("wait", flight.name, number, begin)
    begin = log.mark()
    try:
        begun = next(part) if came is None else part.send(came)
    finally:
        log.note("compute", "compute", number, begin)
    log.follow(begun, number)
    return begun
