"""JSON lines: plain files are sought, compressed ones are decompressed forward."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Final, Literal, cast

from deepinfer.batch.input_line import InputLine
from deepinfer.config.strict_json import shown_path
from deepinfer.errors import JobError

Compression = Literal["none", "gz", "zst"]

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_SKIP_BYTES: Final = 2**20


class TextLines:
    """Lines of a file with one JSON object a line; blank lines are no rows.

    A compressed file goes on from where it stands when a later row is asked for, and begins anew for an earlier one.
    """

    def __init__(self, path: str, compression: Compression, max_row_bytes: int) -> None:
        """Args:
        path: of the file.
        compression: "none", "gz" or "zst".
        max_row_bytes: longer lines come without their text.
        """
        self._path = path
        self._compression = compression
        self._max_row_bytes = max_row_bytes
        self._file: IO[bytes] | None = None
        self._position = 0

    def lines_from(self, place: int) -> Iterator[InputLine]:
        """The lines from byte `place` of the text on."""
        try:
            file = self._at(place)
            while line := file.readline(self._max_row_bytes + 1):
                start, size = self._position, len(line)
                is_whole = line.endswith(b"\n") or size <= self._max_row_bytes
                if not is_whole:
                    size += self._skip_line(file)
                self._position += size
                if start == 0:
                    line = line.removeprefix(_BYTE_ORDER_MARK)
                if not is_whole:
                    yield InputLine(start, None, size)
                elif line.strip():
                    yield InputLine(start, line, size)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise JobError(
                f"{shown_path(self._path)}: its compressed data is cut off or damaged ({error}); write it again"
            ) from error
        except OSError as error:
            reason = error.strerror or error
            raise JobError(f"{shown_path(self._path)}: cannot be read any more ({reason}); put it back") from error

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _at(self, place: int) -> IO[bytes]:
        if self._file is None or place < self._position:
            self.close()
            self._file = _OPENERS[self._compression](self._path)
            self._position = 0
        if self._compression == "none":
            self._file.seek(place)
            self._position = place
        while self._position < place:
            skipped = len(self._file.read(min(_SKIP_BYTES, place - self._position)))
            if not skipped:
                raise JobError(f"{shown_path(self._path)} ends before byte {place}, where a row begins: it was changed")
            self._position += skipped
        return self._file

    def _skip_line(self, file: IO[bytes]) -> int:
        skipped = 0
        while piece := file.readline(_SKIP_BYTES):
            skipped += len(piece)
            if piece.endswith(b"\n"):
                break
        return skipped


def _open_plain(path: str) -> IO[bytes]:
    return open(path, "rb")


def _open_gz(path: str) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path, "rb"))


def _open_zst(path: str) -> IO[bytes]:
    from deepinfer.batch.zstd_reader import ZstdReader

    return io.BufferedReader(ZstdReader(path))


_OPENERS: Final[dict[Compression, Callable[[str], IO[bytes]]]] = {
    "none": _open_plain,
    "gz": _open_gz,
    "zst": _open_zst,
}
