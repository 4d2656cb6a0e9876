"""Zstandard files as a stream of bytes. The only import site of the optional library ``zstandard``."""

from __future__ import annotations

import io
from typing import Any, Final

from deepinfer.config.strict_json import shown_path
from deepinfer.errors import UnsupportedFeatureError

_PIECE: Final = 1024  # compressed bytes at a time: 32 MiB of text at most, however well it was compressed


class ZstdReader(io.RawIOBase):
    """Decompresses forward, frame by frame. EOFError for a file that ends inside a frame or is damaged."""

    def __init__(self, path: str) -> None:
        """UnsupportedFeatureError without the library."""
        try:
            import zstandard
        except ImportError as error:
            raise UnsupportedFeatureError(
                f"{shown_path(path)} is compressed with zstd: pip install 'deepinfer[batch]', or decompress it first"
            ) from error
        self._error = zstandard.ZstdError
        self._decompressor = zstandard.ZstdDecompressor()
        self._file = open(path, "rb")  # noqa: SIM115 closed by `close`
        self._frame: Any = None
        self._left = b""
        self._text = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._text:
            piece = self._left or self._file.read(_PIECE)
            self._left = b""
            if not piece:
                if self._frame is not None:
                    raise EOFError("it ends inside a frame")
                return 0
            self._text = memoryview(self._decompress(piece))
        size = min(len(buffer), len(self._text))
        buffer[:size] = self._text[:size]
        self._text = self._text[size:]
        return size

    def _decompress(self, piece: bytes) -> bytes:
        if self._frame is None:
            self._frame = self._decompressor.decompressobj()
        try:
            text: bytes = self._frame.decompress(piece)
        except self._error as error:
            raise EOFError(str(error)) from error
        if self._frame.eof:
            self._left = self._frame.unused_data
            self._frame = None
        return text

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()
