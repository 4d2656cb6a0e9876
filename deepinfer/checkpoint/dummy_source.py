"""Random weights as a TensorSource, for ``load_format="dummy"``: only config.json is needed."""

from __future__ import annotations

import torch

from deepinfer.checkpoint.random_tensors import RandomTensors
from deepinfer.checkpoint.weight_quantizers import to_stored
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.errors import CheckpointError
from deepinfer.models.deepseek_v41.weights import tensor_table


class DummySource:
    """Makes each tensor when it is asked for; a matrix and its scales agree."""

    def __init__(self, config: DeepSeekV41Config, seed: int = 0) -> None:
        self._specs = {spec.name: spec for spec in tensor_table(config)}
        self._random = RandomTensors(config, seed)
        self._scales: dict[str, torch.Tensor] = {}

    def tensor(self, name: str) -> torch.Tensor:
        """A new CPU tensor in its stored dtype; scales as uint8."""
        if name in self._scales:
            return self._scales.pop(name)
        if name not in self._specs:
            raise CheckpointError(f"dummy weights: the model has no tensor {name!r}")
        if name.endswith(".scale"):
            self._make(name.removesuffix(".scale") + ".weight")
            return self._scales.pop(name)
        return self._make(name)

    def mapped(self, name: str) -> torch.Tensor:
        """The same as `tensor`: there is no file."""
        return self.tensor(name)

    def _make(self, name: str) -> torch.Tensor:
        spec = self._specs[name]
        stored, scales = to_stored(self._random.values(spec), spec)
        if scales is not None:
            self._scales[name.removesuffix(".weight") + ".scale"] = scales
        return stored
