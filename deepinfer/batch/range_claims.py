"""Which range a worker takes next; workers on one directory agree through locks, without a coordinator."""

from __future__ import annotations

from deepinfer.batch.claim import Claim
from deepinfer.batch.claimed_range import ClaimedRange
from deepinfer.batch.job_directory import JobDirectory


class RangeClaims:
    """Hands out ranges in ascending order, then those that others left behind."""

    def __init__(self, directory: JobDirectory, num_ranges: int, worker: str) -> None:
        self._directory = directory
        self._worker = worker
        self._num_ranges = num_ranges
        self._next = 0
        self._done: set[int] = set()

    def take(self) -> ClaimedRange | None:
        """A range that is not done and that no living process holds; None when there is none now.

        Raises JobWriteError.
        """
        for number in (*range(self._next, self._num_ranges), *range(self._next)):
            if self._is_done(number):
                continue
            claim = Claim.take(self._directory.claim(f"{number:06d}"), self._worker)
            if claim is None:
                continue
            if self._is_done(number):  # its holder has ended meanwhile
                claim.release()
                continue
            self._next = number + 1
            return ClaimedRange(number, claim)
        return None

    def are_all_done(self) -> bool:
        """Whether every range has all its results."""
        return all(self._is_done(number) for number in range(self._num_ranges))

    def forget(self, number: int) -> None:
        """A range that was done is not any more."""
        self._done.discard(number)

    def _is_done(self, number: int) -> bool:
        if number not in self._done and self._directory.done(number).exists():
            self._done.add(number)
        return number in self._done
