"""How far a job is, read from its directory alone, while workers are at it or none is."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from deepinfer.batch.claim import Claim
from deepinfer.batch.job_directory import JobDirectory
from deepinfer.batch.job_manifest import JobManifest
from deepinfer.batch.merged_results import MergedResults
from deepinfer.batch.part_contents import PartContents
from deepinfer.config.strict_json import read_json_object
from deepinfer.errors import JobError


@dataclass(frozen=True, slots=True)
class JobStatus:
    """Made by `read`.

    Attributes:
        num_rows: of the input.
        num_ended: rows that have a result, failed ones included.
        failures: code -> rows that failed.
        num_ranges, num_done_ranges: pieces, and those with all their results.
        held: range -> who works on it, as its lock file says.
        results: of a complete job; None when something is left.
    """

    num_rows: int
    num_ended: int
    failures: dict[str, int]
    num_ranges: int
    num_done_ranges: int
    held: dict[int, dict[str, Any]]
    results: MergedResults | None

    @classmethod
    def read(cls, directory: JobDirectory, manifest: JobManifest) -> JobStatus:
        """Look at every range once."""
        ended, done, failures = 0, 0, Counter[str]()
        held: dict[int, dict[str, Any]] = {}
        for number in range(manifest.num_ranges):
            mark = _mark(directory, number)
            if mark is not None:
                done += 1
                ended += mark["rows"]
                failures.update(mark["failures"])
                continue
            entries = PartContents.read(directory.part(number)).entries
            ended += len(entries)
            failures.update(entry.error for entry in entries.values() if entry.error is not None)
            claim = directory.claim(f"{number:06d}")
            if Claim.is_held(claim):
                held[number] = _holder(directory, number)
        shown = dict(sorted(failures.items()))
        results = MergedResults.read(directory)
        return cls(manifest.num_rows, ended, shown, manifest.num_ranges, done, held, results)

    @property
    def num_failed(self) -> int:
        """Rows that failed."""
        return sum(self.failures.values())

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return {**asdict(self), "held": {str(number): holder for number, holder in self.held.items()}}


def _mark(directory: JobDirectory, number: int) -> dict[str, Any] | None:
    """What the mark of a range says; None for a range that is not done."""
    path = directory.done(number)
    return read_json_object(path, JobError) if path.exists() else None


def _holder(directory: JobDirectory, number: int) -> dict[str, Any]:
    try:
        return read_json_object(directory.claim(f"{number:06d}"), JobError)
    except JobError:  # just being written
        return {}
