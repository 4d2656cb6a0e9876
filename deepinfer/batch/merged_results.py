"""The results of a complete job, as a value."""

from __future__ import annotations

from dataclasses import dataclass

from deepinfer.batch.job_directory import JobDirectory
from deepinfer.config.strict_json import read_json_object
from deepinfer.errors import JobError


@dataclass(frozen=True, slots=True)
class MergedResults:
    """What the results of a complete job are.

    Attributes:
        rows: lines.
        failures: code -> rows that failed.
        bytes, sha256: of the file.
    """

    rows: int
    failures: dict[str, int]
    bytes: int
    sha256: str

    @classmethod
    def read(cls, directory: JobDirectory) -> MergedResults | None:
        """Of a job whose results are there and as long as they were written; None for any other."""
        try:
            merged = cls(**read_json_object(directory.merged, JobError))
            return merged if directory.results.stat().st_size == merged.bytes else None
        except (JobError, OSError, TypeError):
            return None
