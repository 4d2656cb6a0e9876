"""The model as native calls: weights and caches of a loaded model, handed to C++ where they lie."""

from __future__ import annotations

from typing import Final

import torch

from deepinfer._C import cpu
from deepinfer.core.cache_tensors import CacheTensors, VectorCache
from deepinfer.models.deepseek_v41.model import DeepSeekV41Model
from deepinfer.models.deepseek_v41.named_tensors import named_tensors
from deepinfer.models.deepseek_v41.native_config import native_config

_TYPES: Final = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.int64: "int64"}


class NativeModel:
    """Owner of a native model and of everything that it reads and writes.

    Attributes:
        calls: the native object (`deepinfer/_C/cpu.pyi`); results are bit-equal to those of the components of `model`.

    Args:
        model: loaded on the CPU; its tensors stay where they are.
        caches: of the same engine.
        context: threads and kernels.
    """

    def __init__(self, model: DeepSeekV41Model, caches: CacheTensors, context: cpu.Context) -> None:
        self._tensors = {name: tensor.contiguous() for name, tensor in named_tensors(model)}
        self._caches = caches
        table = cpu.TensorTable()
        for name, tensor in self._tensors.items():
            table.add(name, tensor.data_ptr(), _TYPES.get(tensor.dtype, "byte"), list(tensor.shape))
        config = native_config(model.runtime, model.compressed_vocab)
        self.calls = cpu.Model(context, config, table, _native_caches(caches))


def _native_caches(caches: CacheTensors) -> cpu.Caches:
    native = cpu.Caches()
    for kind in ("main", "index", "window"):
        pool: dict[int, VectorCache] = getattr(caches, kind)
        for layer, cache in pool.items():
            form = cpu.VectorFormat(cache.format.dim, cache.format.rounding.value, cache.format.packed)
            native.add_vectors(kind, layer, cache.data.data_ptr(), (cache.data.shape[0], cache.data.shape[1]), form)
    for layer, state in caches.compressor.items():
        native.add_states(layer, state.data_ptr(), (state.shape[0], state.shape[1]), state.shape[3])
    return native
