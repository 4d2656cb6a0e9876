"""How many rows of a job have a result, counted again and again at little cost."""

from __future__ import annotations

import os

from deepinfer.batch.job_directory import JobDirectory
from deepinfer.batch.job_manifest import JobManifest


class RowTally:
    """Counts the results of all workers; ranges that are done are looked at once."""

    def __init__(self, directory: JobDirectory, manifest: JobManifest) -> None:
        self._directory = directory
        self._manifest = manifest
        self._left = list(range(manifest.num_ranges))
        self._num_done_rows = 0
        self._seen: dict[int, tuple[int, int]] = {}

    def count(self) -> int:
        """Rows with a result now. A part that was retried counts a row once more until its range is done."""
        left, num_open = [], 0
        for number in self._left:
            rows = len(self._manifest.rows_of(number))
            if self._directory.done(number).exists():
                self._num_done_rows += rows
                continue
            left.append(number)
            num_open += min(self._num_lines(number), rows)
        self._left = left
        return self._num_done_rows + num_open

    def _num_lines(self, number: int) -> int:
        """Whole lines of a part; what was counted before is not read again."""
        try:
            with open(self._directory.part(number), "rb") as file:
                size, count = self._seen.get(number, (0, 0))
                if os.fstat(file.fileno()).st_size < size:  # a damaged end was cut off
                    size = count = 0
                file.seek(size)
                for line in file:
                    if line.endswith(b"\n"):
                        size, count = size + len(line), count + 1
        except OSError:  # not there yet, or not any more: whoever writes it says what is wrong
            return 0
        self._seen[number] = size, count
        return count
