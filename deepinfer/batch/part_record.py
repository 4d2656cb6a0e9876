"""One line of a part file: a row's result, or a note that the row is to be done again."""

from __future__ import annotations

import zlib
from typing import Final, NamedTuple

import msgspec

_PREFIX: Final = len('{"crc":"00000000",')
_RESULT: Final = b',"result":'


class _Head(msgspec.Struct):
    row: int
    key: str
    error: str | None
    result: msgspec.Raw


_DECODER: Final = msgspec.json.Decoder(_Head)


class PartRecord(NamedTuple):
    """What stands in a line.

    Attributes:
        row: number of the row.
        key: of the row, as `PreparedRow.key`.
        error: code of its failure; None when all is well.
        result: the result line without its end; None: whatever was recorded before does not count any more.
    """

    row: int
    key: str
    error: str | None
    result: bytes | None

    def encode(self) -> bytes:
        """The line, with its end: {"crc", "row", "key", "error", "result"}, the checksum over all behind it."""
        head = msgspec.json.encode({"row": self.row, "key": self.key, "error": self.error})[1:-1]
        body = head + _RESULT + (self.result or b"null") + b"}"
        return b'{"crc":"%08x",' % zlib.crc32(body) + body + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> PartRecord | None:
        """The record of a line; None for one that is not whole or not what was written."""
        if not line.endswith(b"}\n") or line[:_PREFIX] != b'{"crc":"%08x",' % zlib.crc32(line[_PREFIX:-1]):
            return None
        try:
            head = _DECODER.decode(line)
        except msgspec.MsgspecError:
            return None
        result = bytes(head.result)
        return cls(head.row, head.key, head.error, None if result == b"null" else result)
