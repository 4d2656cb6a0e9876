"""Amounts of memory as people write them: "141GB", "80 GiB", "512MiB"."""

from __future__ import annotations

import re

from deepinfer.config.field_error import field_error

_MAX_BYTES = 2**60

_UNITS = {"": 1, "B": 1} | {
    prefix.upper() + suffix: base ** (power + 1)
    for power, prefix in enumerate("kmgt")
    for suffix, base in (("B", 1000), ("IB", 1024), ("", 1000))
}


def parse_byte_size(text: str, field: str = "memory") -> int:
    """Bytes of a text such as "141GB" (powers of 1000) or "80GiB" (of 1024). Raises ConfigError naming `field`."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", text)
    unit = _UNITS.get(match[2].upper()) if match else None
    if match is None or unit is None:
        raise field_error(field, text, "a number of bytes with an optional unit (kB, MB, GB, TB, KiB, MiB, GiB, TiB)")
    num_bytes = float(match[1]) * unit
    if num_bytes > _MAX_BYTES:
        raise field_error(field, text, "at most 2^60 bytes")
    return int(num_bytes)


def format_byte_size(num_bytes: int) -> str:
    """A short text in powers of 1024, e.g. "1.50 GiB"."""
    size = float(num_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.2f} {unit}"
        size /= 1024
    return f"{size:.2f} TiB"
