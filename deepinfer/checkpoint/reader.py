"""Lazy access to the tensors of a checkpoint directory: private copies or memory-mapped views."""

from __future__ import annotations

import math
import mmap
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import torch

from deepinfer.checkpoint.shard_index import locate_tensors
from deepinfer.checkpoint.tensor_entry import TensorEntry
from deepinfer.errors import CheckpointError

# Stored type -> torch type. Packed FP4 codes (I8) and E8M0 scales are handed out as plain bytes.
_TORCH_DTYPES = {
    "BF16": torch.bfloat16,
    "F16": torch.float16,
    "F32": torch.float32,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E8M0": torch.uint8,
    "I8": torch.uint8,
    "U8": torch.uint8,
}


class CheckpointReader:
    """A checkpoint directory as a TensorSource (core/tensor_source.py).

    Opening reads the headers only. `tensor` and `mapped` may be called from several threads. Views returned by
    `mapped` stay valid after `close`: the mapping lives as long as its last view. The file must keep its length that
    long; a process that reads a mapped page behind a file's new end is killed by SIGBUS.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._entries = locate_tensors(self.path)
        self._lock = threading.Lock()
        self._files: dict[Path, int] = {}
        self._mappings: dict[Path, mmap.mmap] = {}
        self._closed = False

    @property
    def entries(self) -> Mapping[str, TensorEntry]:
        """Name -> type, shape and place of every stored tensor."""
        return self._entries

    def tensor(self, name: str) -> torch.Tensor:
        """A private CPU copy in its stored dtype; I8 and E8M0 as uint8."""
        entry = self._entry(name)
        data = torch.empty(entry.num_bytes, dtype=torch.uint8)
        view = memoryview(data.numpy().data)
        done = 0
        while done < entry.num_bytes:
            try:
                count = os.preadv(self._file(entry.shard), [view[done:]], entry.offset + done)
            except OSError as error:
                raise CheckpointError(f"{entry.shard}: tensor {name!r} cannot be read ({error.strerror})") from error
            if count == 0:
                raise CheckpointError(f"{entry.shard}: truncated inside tensor {name!r} since it was opened")
            done += count
        return data.view(_torch_dtype(entry)).view(entry.shape)

    def mapped(self, name: str) -> torch.Tensor:
        """A memory-mapped view in its stored dtype (E8M0 as uint8); never write to it (it would not reach the file)."""
        entry = self._entry(name)
        dtype = _torch_dtype(entry)
        if entry.num_bytes == 0:
            return torch.empty(entry.shape, dtype=dtype)
        buffer = self._mapping(entry.shard)
        count = math.prod(entry.shape)
        if entry.offset % dtype.itemsize:  # torch wants aligned elements; published files are aligned
            return self.tensor(name)
        return torch.frombuffer(buffer, dtype=dtype, count=count, offset=entry.offset).view(entry.shape)

    def close(self) -> None:
        """Closes the files; idempotent. Later reads raise CheckpointError."""
        with self._lock:
            for file in self._files.values():
                os.close(file)
            self._files.clear()
            self._mappings.clear()
            self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_closed"):
            self.close()

    def _entry(self, name: str) -> TensorEntry:
        entry = self._entries.get(name)
        if entry is None:
            raise CheckpointError(f"{self.path}: the checkpoint has no tensor {name!r}")
        return entry

    def _file(self, shard: Path) -> int:
        with self._lock:
            if self._closed:
                raise CheckpointError(f"{self.path}: the checkpoint reader is closed")
            if shard not in self._files:
                try:
                    self._files[shard] = os.open(shard, os.O_RDONLY)
                except OSError as error:
                    raise CheckpointError(f"{shard}: cannot be opened any more ({error.strerror})") from error
            return self._files[shard]

    def _mapping(self, shard: Path) -> mmap.mmap:
        file = self._file(shard)
        with self._lock:
            if shard not in self._mappings:
                end = max(entry.offset + entry.num_bytes for entry in self._entries.values() if entry.shard == shard)
                if os.fstat(file).st_size < end:  # reading a missing page of a mapping would kill the process
                    raise CheckpointError(f"{shard}: truncated since it was opened: {end} bytes were there")
                # Copy-on-write: torch only takes writable buffers without a warning, and the file stays safe.
                self._mappings[shard] = mmap.mmap(file, 0, access=mmap.ACCESS_COPY)
            return self._mappings[shard]


def _torch_dtype(entry: TensorEntry) -> torch.dtype:
    dtype = _TORCH_DTYPES.get(entry.dtype)
    if dtype is None:
        raise CheckpointError(f"{entry.shard}: tensor {entry.name!r} has type {entry.dtype}, which no V4.1 tensor has")
    return dtype
