"""Where one stored tensor lies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """One row of a shard's header.

    Attributes:
        name: tensor name without the optional ``model.`` prefix.
        dtype: safetensors type name ("BF16", "F32", "F8_E4M3", "F8_E8M0", "I8", "U8", ...).
        shape: dimensions.
        shard: file that holds it.
        offset: first byte in the file.
        num_bytes: length.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    shard: Path
    offset: int
    num_bytes: int
