"""How many rows of a job have a result, counted again and again at little cost."""

from __future__ import annotations

from deepinfer.batch.job_directory import JobDirectory
from deepinfer.batch.job_manifest import JobManifest


class RowTally:
    """Counts the results of all workers; ranges that are done are looked at once."""

    def __init__(self, directory: JobDirectory, manifest: JobManifest) -> None:
        self._directory = directory
        self._manifest = manifest
        self._left = list(range(manifest.num_ranges))
        self._num_done_rows = 0

    def count(self) -> int:
        """Rows with a result now. A part that was retried counts a row once more until its range is done."""
        left, num_open = [], 0
        for number in self._left:
            rows = len(self._manifest.rows_of(number))
            if self._directory.done(number).exists():
                self._num_done_rows += rows
                continue
            left.append(number)
            part = self._directory.part(number)
            if part.exists():
                with open(part, "rb") as file:
                    num_open += min(sum(1 for line in file if line.endswith(b"\n")), rows)
        self._left = left
        return self._num_done_rows + num_open
