"""A TensorSource that refuses NaN and infinity in what it hands out."""

from __future__ import annotations

import torch

from deepinfer.checkpoint.reader import CheckpointReader
from deepinfer.checkpoint.tensor_entry import TensorEntry
from deepinfer.errors import CheckpointError

_CHUNK = 1 << 22  # elements looked at together: bounds the memory of the check
_SCALE_NAN = 255
_CODE_NAN = 127  # e4m3: all bits but the sign


class FiniteSource:
    """Checks every tensor that is read into memory.

    * float types: no NaN, no infinity;
    * FP8 codes (e4m3): no NaN code (0x7F, 0xFF; the type has no infinity);
    * scales (E8M0, also stored as U8): no byte 255, which is NaN;
    * FP4 codes: every byte is a number.

    Mapped tables (Engram) stay on disk, are far too large to read at load, and are not checked; nor are tensors that
    nobody reads (images; drafts when they are off).
    """

    def __init__(self, reader: CheckpointReader) -> None:
        self._reader = reader

    def tensor(self, name: str) -> torch.Tensor:
        """`tensor` of the reader. Raises CheckpointError naming tensor, shard and place of a value not finite."""
        data = self._reader.tensor(name)
        entry = self._reader.entries[name]
        for start, part in _chunks(data):
            wrong = _first_wrong(part, entry)
            if wrong is not None:
                raise CheckpointError(
                    f"{entry.shard}: tensor {name!r} of type {entry.dtype} and shape {list(entry.shape)} has a value "
                    f"that is not finite at {_place(start + wrong, entry.shape)}: the file is damaged"
                )
        return data

    def mapped(self, name: str) -> torch.Tensor:
        """`mapped` of the reader, unchecked."""
        return self._reader.mapped(name)


def _chunks(data: torch.Tensor) -> list[tuple[int, torch.Tensor]]:
    flat = data.view(-1)
    return [(start, flat[start : start + _CHUNK]) for start in range(0, flat.shape[0], _CHUNK)]


def _first_wrong(part: torch.Tensor, entry: TensorEntry) -> int | None:
    """Number of the first value that is not finite in a flat, not empty part; None when all are."""
    if part.dtype == torch.uint8:
        if entry.dtype == "I8" or int(part.max()) < _SCALE_NAN:
            return None
        wrong = part == _SCALE_NAN
    elif part.dtype == torch.float8_e4m3fn:
        # 0xFF is the largest byte and 0x7F the largest signed one: two maxima, and no copy is made.
        if int(part.view(torch.uint8).max()) < _SCALE_NAN and int(part.view(torch.int8).max()) < _CODE_NAN:
            return None
        wrong = part.view(torch.uint8).bitwise_and(_CODE_NAN) == _CODE_NAN
    else:
        low, high = torch.aminmax(part)  # NaN gets through, and no copy is made
        if bool((torch.isfinite(low) & torch.isfinite(high)).item()):
            return None
        wrong = ~part.isfinite()
    return int(wrong.to(torch.uint8).argmax()) if bool(wrong.any()) else None


def _place(number: int, shape: tuple[int, ...]) -> list[int]:
    place: list[int] = []
    for size in reversed(shape):
        number, index = divmod(number, size)
        place.insert(0, index)
    return place
