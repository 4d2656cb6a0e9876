"""Files that are either whole or not there, also after a power cut."""

from __future__ import annotations

import glob
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from deepinfer.config.strict_json import shown_path
from deepinfer.errors import JobWriteError


def write_error(path: Path, error: OSError) -> JobWriteError:
    """The error of a job whose file `path` cannot be written."""
    reason = error.strerror or str(error)
    return JobWriteError(
        f"{shown_path(path)} cannot be written ({reason}); what is finished stays valid: make room or mend the "
        "directory, then give the same command again"
    )


@contextmanager
def atomic_file(path: Path) -> Generator[IO[bytes], None, None]:
    """Inside, write to a file of another name; at the end it takes the place of `path`, or is removed after an error.

    Raises JobWriteError when anything cannot be written.
    """
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        try:
            with open(temporary, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
            sync_directory(path.parent)
        except BaseException:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise write_error(path, error) from error


def write_atomically(path: Path, content: bytes) -> None:
    """Put `content` in the place of a file. Raises JobWriteError."""
    with atomic_file(path) as file:
        file.write(content)


def remove_leftovers(path: Path) -> None:
    """Remove what killed writers of `path` have left; only for who holds the lock under which it is written."""
    for temporary in path.parent.glob(f"{glob.escape(path.name)}.*.tmp"):
        with suppress(OSError):
            temporary.unlink()


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
