"""Runs computations that other ranks take part in, each while data of the others are on their way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from deepinfer.distributed.in_flight import Turns

T = TypeVar("T")


def take_turns(parts: Sequence[Turns[T]]) -> list[T]:
    """What each of the parts returns.

    They go on in a fixed order, always up to the next exchange: so all ranks, which run as many parts with as many
    exchanges, begin their collectives in the same order. An exception of one ends all.
    """
    results: dict[int, T] = {}
    try:
        while len(results) < len(parts):
            for number, part in enumerate(parts):
                if number not in results:
                    try:
                        next(part)
                    except StopIteration as end:
                        results[number] = end.value
    finally:
        for part in parts:
            part.close()
    return [results[number] for number in range(len(parts))]
