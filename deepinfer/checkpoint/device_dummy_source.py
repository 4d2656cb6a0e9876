"""Random weights made on a GPU in their stored form, for ``load_format="dummy"`` at full size."""

from __future__ import annotations

import hashlib
import math

import torch

from deepinfer.checkpoint.random_tensors import weight_statistics
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.errors import CheckpointError
from deepinfer.models.deepseek_v41.tensor_spec import TensorSpec
from deepinfer.models.deepseek_v41.weights import tensor_table

_E2M1_RMS = 2.93  # of sixteen equally likely codes
_E4M3_RMS = 64.0  # the largest of 10^12 normal numbers stays below 448


class DeviceDummySource:
    """Makes each tensor when it is asked for: random codes, and one scale for all groups of a matrix.

    Quantizing random floats, as `DummySource` does, would take minutes for a model of full size. The values depend on
    seed and name alone (for one GPU and torch version).

    Args:
        config: model they are for.
        device: a GPU.
        seed: any integer.
    """

    def __init__(self, config: DeepSeekV41Config, device: torch.device, seed: int = 0) -> None:
        self._specs = {spec.name: spec for spec in tensor_table(config)}
        self._config = config
        self._device = device
        self._seed = seed

    def tensor(self, name: str) -> torch.Tensor:
        """A new tensor on the device in its stored dtype; FP4 codes and scales as uint8."""
        if name not in self._specs:
            raise CheckpointError(f"dummy weights: the model has no tensor {name!r}")
        spec = self._specs[name]
        if spec.dtype == "F8_E8M0":
            return torch.full(spec.shape, self._scale_byte(name), dtype=torch.uint8, device=self._device)
        digest = hashlib.blake2b(f"{self._seed}:{name}".encode(), digest_size=8).digest()
        generator = torch.Generator(self._device).manual_seed(int.from_bytes(digest, "little") % 2**63)
        if spec.dtype == "I8":
            return torch.randint(0, 256, spec.shape, dtype=torch.uint8, device=self._device, generator=generator)
        values = torch.randn(spec.shape, device=self._device, generator=generator)
        if spec.dtype == "F8_E4M3":
            return values.mul_(_E4M3_RMS).to(torch.float8_e4m3fn)
        mean, deviation = self._statistics(spec)
        return values.mul_(deviation).add_(mean).to(torch.bfloat16 if spec.dtype == "BF16" else torch.float32)

    def mapped(self, name: str) -> torch.Tensor:
        """An Engram table or its scales, in pinned host memory."""
        return self.tensor(name).cpu().pin_memory()

    def _scale_byte(self, name: str) -> int:
        spec = self._specs[name.removesuffix(".scale") + ".weight"]
        rms = _E2M1_RMS if spec.dtype == "I8" else _E4M3_RMS
        return 127 + round(math.log2(self._statistics(spec)[1] / rms))

    def _statistics(self, spec: TensorSpec) -> tuple[float, float]:
        columns = spec.shape[-1] * (2 if spec.dtype == "I8" else 1)
        return weight_statistics(spec.name, columns)
