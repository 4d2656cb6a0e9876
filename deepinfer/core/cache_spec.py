"""What one cache tensor holds: owner layer, geometry, rounding and bytes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class CacheKind(str, Enum):
    """Which pool a cache lives in."""

    MAIN = "main"  # paged blocks: compressed key=value entries
    INDEX = "index"  # paged blocks: index keys
    WINDOW = "window"  # state slot: ring of the last tokens' key=value vectors
    COMPRESSOR = "compressor"  # state slot: ring of fp32 (score, value) pairs of an unfinished group


class KVRounding(str, Enum):
    """Quantizer a vector passes before it is stored (spec/model.md 2.3)."""

    NONE = "none"
    FP8_GROUP32 = "fp8_group32"  # Q8/32: e4m3 codes, then one E8M0 byte per 32
    FP4_GROUP32 = "fp4_group32"  # Q4/32: e2m1 nibbles, then one E8M0 byte per 32
    FP4_GROUP16 = "fp4_group16"  # Q4/16e: e2m1 nibbles, then one e4m3 byte per 16

    def packed_bytes(self, dim: int) -> int:
        """Bytes of one packed vector of `dim` values: data, then scales."""
        if self is KVRounding.FP8_GROUP32:
            return dim + -(-dim // 32)
        if self is KVRounding.FP4_GROUP32:
            return dim // 2 + -(-dim // 32)
        if self is KVRounding.FP4_GROUP16:
            return dim // 2 + -(-dim // 16)
        return 4 * dim


@dataclass(frozen=True, slots=True)
class VectorFormat:
    """How vectors of one cache are rounded and stored.

    Attributes:
        dim: values per vector.
        rounding: quantizer.
        packed: True: the quantizer's bytes; False: the (rounded) values as float32.
    """

    dim: int
    rounding: KVRounding
    packed: bool

    @property
    def num_bytes(self) -> int:
        return self.rounding.packed_bytes(self.dim) if self.packed else 4 * self.dim


@dataclass(frozen=True, slots=True)
class CacheSpec:
    """One row of the cache table.

    Attributes:
        kind: pool and role.
        layer_id: owning layer.
        ratio: original tokens per entry (1 for window and compressor rings).
        num_entries: entries per block (paged) or ring slots (state).
        format: vector format; for COMPRESSOR two fp32 vectors an entry.
    """

    kind: CacheKind
    layer_id: int
    ratio: int
    num_entries: int
    format: VectorFormat

    @property
    def entry_bytes(self) -> int:
        return self.format.num_bytes * (2 if self.kind is CacheKind.COMPRESSOR else 1)

    @property
    def unit_bytes(self) -> int:
        """Bytes per block or per state slot."""
        return self.entry_bytes * self.num_entries
