"""Finds two rows of one id among any number of rows, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from deepinfer.errors import JobError

_PART_ROWS: Final = 2**20  # rows whose hashes are sorted at a time
_CHUNK_ROWS: Final = 2**16


def refuse_duplicates(hashes: np.ndarray, id_of: Callable[[int], str], part_rows: int = _PART_ROWS) -> None:
    """Raise JobError for two rows of the same id, naming both.

    Args:
        hashes: uint64 [n], one an id; may be mapped from a file.
        id_of: number of a row -> its id, asked for rows with equal hashes alone.
        part_rows: the hashes are looked at in parts of about so many, by their value.
    """
    num_parts = max(1, -(-len(hashes) // part_rows))
    for part in range(num_parts):
        numbers = _numbers_of(hashes, part, num_parts)
        found = np.asarray(hashes[numbers])
        order = np.argsort(found, kind="stable")
        ordered = found[order]
        for place in np.flatnonzero(ordered[1:] == ordered[:-1]).tolist():
            _compare(numbers[order], ordered, place, id_of)


def _numbers_of(hashes: np.ndarray, part: int, num_parts: int) -> np.ndarray:
    """Numbers of the rows whose hash belongs to a part."""
    found = []
    for begin in range(0, len(hashes), _CHUNK_ROWS):
        chunk = np.asarray(hashes[begin : begin + _CHUNK_ROWS])
        found.append(np.flatnonzero(chunk % np.uint64(num_parts) == part) + begin)
    return np.concatenate(found)


def _compare(numbers: np.ndarray, ordered: np.ndarray, place: int, id_of: Callable[[int], str]) -> None:
    """Equal hashes at `place` and behind it: compare the id with every earlier one of the same hash."""
    second = int(numbers[place + 1])
    wanted = id_of(second)
    for first in _same_hash(numbers, ordered, place):
        if id_of(first) == wanted:
            low, high = sorted((first, second))
            raise JobError(
                f"rows {low} and {high} (counted from 0) have the same id {wanted!r}: give every row an id of its own; "
                "nothing was run"
            )


def _same_hash(numbers: np.ndarray, ordered: np.ndarray, place: int) -> Iterator[int]:
    value = ordered[place]
    while place >= 0 and ordered[place] == value:
        yield int(numbers[place])
        place -= 1
