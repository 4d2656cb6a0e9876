"""The input of a job: which format it has, what identifies it, and a reader of its rows."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

from deepinfer.batch.line_source import LineSource
from deepinfer.batch.parquet_rows import ParquetRows
from deepinfer.batch.row_fields import read_fields, read_value
from deepinfer.batch.text_lines import Compression, TextLines
from deepinfer.config.strict_json import shown_path
from deepinfer.errors import JobError, RequestError

InputFormat = Literal["jsonl", "parquet", "openai"]

_SNIFFED_BYTES: Final = 2**20
_MAGIC: Final[tuple[tuple[bytes, Compression], ...]] = ((b"\x1f\x8b", "gz"), (b"\x28\xb5\x2f\xfd", "zst"))


@dataclass(frozen=True, slots=True)
class InputFile:
    """Made by `examine`.

    Attributes:
        format: "jsonl", "parquet" or "openai" (JSON lines of the OpenAI batch API).
        compression: "none", "gz" or "zst"; found by content, not by name.
        num_bytes: size of the file.
        sha256: of the file's bytes, hexadecimal.
        max_row_bytes: a longer row is a row error.
    """

    format: InputFormat
    compression: Compression
    num_bytes: int
    sha256: str
    max_row_bytes: int

    @classmethod
    def examine(cls, path: Path, format_name: str, max_row_bytes: int) -> InputFile:
        """Look at a file.

        Args:
            path: a regular file.
            format_name: an InputFormat, or "auto" to find out.
            max_row_bytes: at least 1.

        Raises JobError for a name that is none, an unreadable or empty file.
        """
        if format_name not in ("auto", *get_args(InputFormat)):
            names = ", ".join(("auto", *get_args(InputFormat)))
            raise JobError(f"format = {format_name!r}: expected one of {names}")
        if max_row_bytes < 1:
            raise JobError(f"max_row_bytes = {max_row_bytes}: expected at least 1")
        num_bytes, sha256 = _identity(path)
        if num_bytes == 0:
            raise JobError(f"{shown_path(path)} is empty: there is nothing to do")
        with open(path, "rb") as file:
            head = file.read(4)
        if head == b"PAR1":
            if format_name not in ("auto", "parquet"):
                raise JobError(f"{shown_path(path)} is a Parquet file, not {format_name}")
            return cls("parquet", "none", num_bytes, sha256, max_row_bytes)
        if format_name == "parquet":
            raise JobError(f"{shown_path(path)} is no Parquet file: it does not begin with PAR1")
        compression: Compression = next((kind for magic, kind in _MAGIC if head.startswith(magic)), "none")
        known = cls("jsonl", compression, num_bytes, sha256, max_row_bytes)
        is_openai = format_name == "openai" or (format_name == "auto" and _looks_like_openai(known.open(path)))
        return cls("openai", compression, num_bytes, sha256, max_row_bytes) if is_openai else known

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> InputFile:
        """What `to_dict` gave."""
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return asdict(self)

    def open(self, path: Path) -> LineSource:
        """A reader of the file's rows."""
        if self.format == "parquet":
            return ParquetRows(str(path), self.max_row_bytes)
        return TextLines(str(path), self.compression, self.max_row_bytes)

    def require_same(self, path: Path) -> None:
        """Raise JobError unless the file at `path` is the one that was examined."""
        num_bytes, sha256 = _identity(path)
        if (num_bytes, sha256) != (self.num_bytes, self.sha256):
            raise JobError(
                f"{shown_path(path)} was changed since the job began ({self.num_bytes:,} bytes with sha256 "
                f"{self.sha256[:12]} then, {num_bytes:,} with {sha256[:12]} now): put the old file back, or begin "
                "another job in a new directory"
            )


def _identity(path: Path) -> tuple[int, str]:
    where = shown_path(path)
    if not path.is_file():
        raise JobError(f"{where}: no such file; a job reads its input again whenever it goes on")
    try:
        with open(path, "rb") as file:
            return path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise JobError(f"{where}: cannot be read ({error.strerror})") from error


def _looks_like_openai(source: LineSource) -> bool:
    """Whether the first row that can be read is a request of the OpenAI batch API."""
    num_seen = 0
    try:
        for line in source.lines_from(0):
            num_seen += line.num_bytes
            try:
                fields = read_fields(line)
                url, method = read_value(fields, "url"), read_value(fields, "method")
                return "body" in fields and (method == "POST" or (isinstance(url, str) and url.startswith("/v1/")))
            except RequestError:
                if num_seen > _SNIFFED_BYTES:
                    break
        return False
    finally:
        source.close()
