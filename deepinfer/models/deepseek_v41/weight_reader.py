"""Reads checkpoint tensors into the forms that the model's components hold."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from deepinfer.core.quantized_weight import QuantizedWeight, WeightFormat
from deepinfer.core.tensor_source import TensorSource


class WeightReader:
    """Reads by name below a prefix and moves to the model's device.

    Names and storage types are those of spec/model.md 2.1; the source has been validated against the name table.
    """

    def __init__(self, source: TensorSource, device: torch.device, prefix: str = "") -> None:
        self._source = source
        self._device = device
        self._prefix = prefix

    @property
    def device(self) -> torch.device:
        return self._device

    def under(self, prefix: str) -> WeightReader:
        """A reader for the names below ``prefix.``."""
        return WeightReader(self._source, self._device, f"{self._prefix}{prefix}.")

    def plain(self, name: str) -> torch.Tensor:
        """A BF16 or F32 tensor in its stored dtype."""
        return self._source.tensor(self._prefix + name).to(self._device)

    def fp8(self, name: str) -> QuantizedWeight:
        """An FP8 matrix ``name.weight`` [out, in] with its 32x32 tile scales ``name.scale``."""
        return QuantizedWeight(self.plain(f"{name}.weight"), self.plain(f"{name}.scale"), WeightFormat.FP8_BLOCK32)

    def experts(self, experts: Sequence[int], matrix: str) -> QuantizedWeight:
        """The FP4 matrices ``experts.{e}.{matrix}`` of these experts, stacked: codes uint8 [n, out, in/2]. An expert
        that is named twice is read once.
        """
        codes = self._stack([f"experts.{e}.{matrix}.weight" for e in experts])
        scales = self._stack([f"experts.{e}.{matrix}.scale" for e in experts])
        return QuantizedWeight(codes, scales, WeightFormat.FP4_ROW32)

    def table(self, name: str) -> tuple[torch.Tensor, torch.Tensor]:
        """Memory-mapped rows and scales of an Engram table; stays where the file is."""
        return self._source.mapped(f"{self._prefix}{name}.weight"), self._source.mapped(f"{self._prefix}{name}.scale")

    def _stack(self, names: list[str]) -> torch.Tensor:
        first = self._source.tensor(self._prefix + names[0])
        stack = torch.empty((len(names), *first.shape), dtype=first.dtype, device=self._device)
        stack[0] = first
        places = {names[0]: 0}
        for e, name in enumerate(names[1:], start=1):
            known = places.setdefault(name, e)
            stack[e] = self._source.tensor(self._prefix + name) if known == e else stack[known]
        return stack
