"""Bytes of single tokens of a byte-level tokenizer."""

from __future__ import annotations

from functools import cache


@cache
def _byte_of_char() -> dict[str, int]:
    """The byte-level alphabet: printable Latin-1 stands for itself, every other byte for a character from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    shifted = [byte for byte in range(256) if byte not in set(printable)]
    table = {chr(byte): byte for byte in printable}
    table.update({chr(0x100 + place): byte for place, byte in enumerate(shifted)})
    return table


def token_bytes(token: str) -> bytes:
    """Bytes of a vocabulary entry; an entry outside the byte-level alphabet is plain UTF-8 text."""
    table = _byte_of_char()
    if all(char in table for char in token):
        return bytes(table[char] for char in token)
    return token.encode("utf-8")
