"""All results in the order of the input, from the parts."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict

from deepinfer.batch.atomic_file import atomic_file, remove_leftovers, write_atomically, write_error
from deepinfer.batch.claim import Claim
from deepinfer.batch.job_directory import JobDirectory
from deepinfer.batch.job_manifest import JobManifest
from deepinfer.batch.merged_results import MergedResults
from deepinfer.batch.part_contents import PartContents


def merge_parts(directory: JobDirectory, manifest: JobManifest, worker: str) -> list[int]:
    """Write the results of a job whose ranges are all done; whoever comes second finds them written.

    Held in memory are one range's places and one line at a time.

    Returns:
        Ranges whose part is damaged or lacks rows; their marks are removed, so that they are computed again, and no
        results are written. Empty when all is well. Raises JobWriteError.
    """
    claim = Claim.take(directory.claim("merge"), worker, wait=True)
    assert claim is not None, "it was waited for"
    try:
        if MergedResults.read(directory) is not None:
            return []
        damaged = [number for number in range(manifest.num_ranges) if not _is_whole(directory, manifest, number)]
        if not damaged:
            remove_leftovers(directory.results)
            _write(directory, manifest)
        for number in damaged:
            _reopen(directory, number)
        return damaged
    finally:
        claim.release()


def unmerge(directory: JobDirectory) -> None:
    """Forget the results, whose parts are about to change. Raises JobWriteError."""
    for path in (directory.merged, directory.results):
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise write_error(path, error) from error


def _is_whole(directory: JobDirectory, manifest: JobManifest, number: int) -> bool:
    contents = PartContents.read(directory.part(number))
    return not contents.is_damaged and len(contents.entries) == len(manifest.rows_of(number))


def _reopen(directory: JobDirectory, number: int) -> None:
    with suppress(FileNotFoundError):
        directory.done(number).unlink()


def _write(directory: JobDirectory, manifest: JobManifest) -> None:
    digest, num_bytes, failures = hashlib.sha256(), 0, Counter[str]()
    with atomic_file(directory.results) as file:
        for number in range(manifest.num_ranges):
            for line, error in _lines(directory, manifest, number):
                file.write(line)
                digest.update(line)
                num_bytes += len(line)
                failures[error or ""] += 1
    del failures[""]
    merged = MergedResults(manifest.num_rows, dict(sorted(failures.items())), num_bytes, digest.hexdigest())
    write_atomically(directory.merged, json.dumps(asdict(merged)).encode("utf-8") + b"\n")


def _lines(directory: JobDirectory, manifest: JobManifest, number: int) -> Iterator[tuple[bytes, str | None]]:
    """Result lines of a range in the order of its rows, each with the code of its failure."""
    entries = PartContents.read(directory.part(number)).entries
    with open(directory.part(number), "rb") as part:
        for row in manifest.rows_of(number):
            yield entries[row].result(part) + b"\n", entries[row].error
