"""The names of everything in the directory of a job."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deepinfer.batch.atomic_file import write_error
from deepinfer.config.strict_json import shown_path
from deepinfer.errors import JobError

_OWN: Final = ("claims", "parts", "timings", "rows.idx", "manifest.json")


@dataclass(frozen=True, slots=True)
class JobDirectory:
    """Paths of a job; all of them can be read by people.

    Attributes:
        root: the directory.
    """

    root: Path

    @property
    def manifest(self) -> Path:
        """What the job is."""
        return self.root / "manifest.json"

    @property
    def index(self) -> Path:
        """Hash of the id and place of each row."""
        return self.root / "rows.idx"

    @property
    def parts(self) -> Path:
        """Results by range."""
        return self.root / "parts"

    @property
    def claims(self) -> Path:
        """Who works on what."""
        return self.root / "claims"

    @property
    def timings(self) -> Path:
        """Times of rows and workers."""
        return self.root / "timings"

    @property
    def results(self) -> Path:
        """All results in the order of the input; there once the job is complete."""
        return self.root / "results.jsonl"

    @property
    def merged(self) -> Path:
        """Size and sha256 of the results; there once they are whole."""
        return self.root / "merged.json"

    def part(self, number: int) -> Path:
        """Results of a range, as they came."""
        return self.parts / f"{number:06d}.jsonl"

    def done(self, number: int) -> Path:
        """There once all rows of a range have results."""
        return self.parts / f"{number:06d}.done"

    def claim(self, name: str) -> Path:
        """The lock file of a range or of another piece of work."""
        return self.claims / f"{name}.lock"

    def prepare(self) -> None:
        """Make the directory and its folders, as far as they are missing.

        Raises JobError for a directory with files of others, JobWriteError where it cannot be made.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            strangers = [path.name for path in self.root.iterdir() if not path.name.startswith(_OWN)]
            if strangers and not self.manifest.exists():
                raise JobError(
                    f"{shown_path(self.root)} is no job's directory, but not empty ({strangers[0]!r}): name a new one"
                )
            for folder in (self.parts, self.claims, self.timings):
                folder.mkdir(exist_ok=True)
        except OSError as error:
            raise write_error(self.root, error) from error
