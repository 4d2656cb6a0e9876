"""Failed rows are to be done again, on request."""

from __future__ import annotations

from deepinfer.batch.claim import Claim
from deepinfer.batch.job_directory import JobDirectory
from deepinfer.batch.job_manifest import JobManifest
from deepinfer.batch.merge import unmerge
from deepinfer.batch.part_file import PartFile
from deepinfer.batch.part_record import PartRecord
from deepinfer.errors import JobError


def retry_failed_rows(directory: JobDirectory, manifest: JobManifest) -> int:
    """Note in the parts that the failed rows have no result any more.

    Nothing is removed from a part, and the note survives everything that a result does. Returns the number of rows.
    Raises JobError while somebody works on a range with failed rows, JobWriteError.
    """
    merging = Claim.take(directory.claim("merge"), "retry")
    if merging is None:
        raise JobError("the results are being merged: wait for that, and try again")
    try:
        return sum(_forget_failures(directory, number) for number in range(manifest.num_ranges))
    finally:
        merging.release()


def _forget_failures(directory: JobDirectory, number: int) -> int:
    """Of one range; the number of its failed rows."""
    if not directory.part(number).exists():
        return 0
    claim = Claim.take(directory.claim(f"{number:06d}"), "retry")
    if claim is None:
        raise JobError(f"range {number} is being worked on: wait for its worker, or end it, and try again")
    try:
        part = PartFile(directory.part(number))
        try:
            failed = [(row, entry.key) for row, entry in part.contents.entries.items() if entry.error is not None]
            if failed:
                unmerge(directory)
                directory.done(number).unlink(missing_ok=True)
                part.append([PartRecord(row, key, None, None) for row, key in failed])
                part.sync()
            return len(failed)
        finally:
            part.close()
    finally:
        claim.release()
