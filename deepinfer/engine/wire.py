"""Python values between a front end and one worker process."""

from __future__ import annotations

import io
import pickle
from multiprocessing.connection import Connection
from typing import Any, Final

from deepinfer.text.tokenizer import Tokenizer

_TOKENIZER: Final = "tokenizer"


class Wire:
    """One end of a pipe. Both ends are processes of one engine, of the same user, so pickle is safe between them.

    Outputs decode their tokens' texts when they are asked to, so they hold the tokenizer: it stays at home, and what
    is unpacked gets the tokenizer of the end that unpacks.

    Args:
        connection: the pipe.
        tokenizer: of this end; None while no value with a tokenizer can come.
    """

    def __init__(self, connection: Connection, tokenizer: Tokenizer | None = None) -> None:
        self.connection = connection
        self.tokenizer = tokenizer

    def pack(self, value: Any) -> bytes:
        """The bytes of a value. Raises whatever its objects raise that cannot go to another process."""
        buffer = io.BytesIO()
        pickler = pickle.Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL)
        pickler.persistent_id = self._name  # type: ignore[method-assign]
        pickler.dump(value)
        return buffer.getvalue()

    def send(self, value: Any) -> None:
        """Pack and send. OSError when the other end is gone."""
        self.connection.send_bytes(self.pack(value))

    def receive(self) -> Any:
        """The next value; waits for it. EOFError or OSError when the other end is gone."""
        return self.unpack(self.connection.recv_bytes())

    def unpack(self, data: bytes) -> Any:
        """The value of bytes from `pack`, of the other end. Raises whatever its objects raise."""
        unpickler = pickle.Unpickler(io.BytesIO(data))
        unpickler.persistent_load = self._named  # type: ignore[method-assign]
        return unpickler.load()

    @staticmethod
    def _name(item: Any) -> str | None:
        return _TOKENIZER if isinstance(item, Tokenizer) else None

    def _named(self, name: Any) -> Any:
        assert name == _TOKENIZER and self.tokenizer is not None, name
        return self.tokenizer
