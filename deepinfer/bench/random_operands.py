"""Random operands of ops, on any device."""

from __future__ import annotations

from typing import Final

import torch

from deepinfer.core.cache_spec import KVRounding, VectorFormat
from deepinfer.core.cache_tensors import VectorCache
from deepinfer.core.quantized_weight import QuantizedWeight, WeightFormat
from deepinfer.ops import reference

_NUM_SAMPLES: Final = 4096  # different vectors of a cache; the rest repeats them


class RandomOperands:
    """Makes tensors of the dtypes and magnitudes that ops get in numerics "official".

    Args:
        device: where they lie.
        pool_bytes: size of a paged cache. Block tables point all over it, so one far larger than the processor's
            cache is read from memory.
    """

    def __init__(self, device: torch.device, pool_bytes: int) -> None:
        self.device = device
        self._pool_bytes = pool_bytes

    def activations(self, *shape: int) -> torch.Tensor:
        """bf16, near one."""
        return torch.randn(shape, device=self.device, dtype=torch.bfloat16)

    def floats(self, *shape: int) -> torch.Tensor:
        """float32, near one."""
        return torch.randn(shape, device=self.device)

    def integers(self, high: int, *shape: int) -> torch.Tensor:
        """int64 in [0, high)."""
        return torch.randint(high, shape, device=self.device)

    def distinct(self, high: int, rows: int, count: int) -> torch.Tensor:
        """int64 [rows, count] in [0, high), ascending, no number twice in a row."""
        return torch.rand(rows, high, device=self.device).topk(count, dim=1).indices.sort(dim=1).values

    def angles(self, rows: int, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
        """cos and sin, float32 [rows, dim/2], of a rotation by some angle."""
        angle = self.floats(rows, dim // 2)
        return angle.cos(), angle.sin()

    def fp8(self, num_out: int, num_in: int) -> QuantizedWeight:
        """[num_out, num_in] with scales of 32x32 tiles."""
        codes = self.activations(num_out, num_in).mul_(16).to(torch.float8_e4m3fn)
        return QuantizedWeight(codes, self._scales(-(-num_out // 32), -(-num_in // 32)), WeightFormat.FP8_BLOCK32)

    def fp4(self, count: int, num_out: int, num_in: int) -> QuantizedWeight:
        """[count, num_out, num_in] with scales of 32 columns."""
        codes = torch.randint(0, 256, (count, num_out, num_in // 2), device=self.device, dtype=torch.uint8)
        return QuantizedWeight(codes, self._scales(count, num_out, -(-num_in // 32)), WeightFormat.FP4_ROW32)

    def vectors(self, dim: int, rounding: KVRounding, units: int, entries: int) -> VectorCache:
        """A cache of packed vectors: `units` units of `entries` each."""
        form = VectorFormat(dim, rounding, packed=True)
        samples = reference.encode_vectors(self.activations(_NUM_SAMPLES, dim), form)
        count = units * entries
        data = samples.repeat(-(-count // _NUM_SAMPLES), 1)[:count]
        return VectorCache(data.view(units, entries, form.num_bytes), form)

    def pool(self, dim: int, rounding: KVRounding, entries: int) -> VectorCache:
        """A paged cache of `pool_bytes`, at least one block, of `entries` to a block."""
        block_bytes = entries * VectorFormat(dim, rounding, packed=True).num_bytes
        return self.vectors(dim, rounding, max(1, self._pool_bytes // block_bytes), entries)

    def _scales(self, *shape: int) -> torch.Tensor:
        """E8M0 bytes of some powers of two below one."""
        return torch.randint(117, 121, shape, device=self.device, dtype=torch.uint8)
