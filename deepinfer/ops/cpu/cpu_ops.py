"""The op contract over native CPU kernels."""

from __future__ import annotations

import torch

from deepinfer._C import cpu
from deepinfer.core.cache_spec import KVRounding, VectorFormat
from deepinfer.core.quantized_weight import QuantizedWeight
from deepinfer.ops.cpu.decode_vectors import decode_vectors
from deepinfer.ops.cpu.encode_vectors import encode_vectors
from deepinfer.ops.cpu.grouped_linear import grouped_linear
from deepinfer.ops.cpu.linear import linear
from deepinfer.ops.cpu.moe import moe
from deepinfer.ops.cpu.quantized_linear import quantized_linear
from deepinfer.ops.cpu.round_vectors import round_vectors


class CpuOps:
    """Implements `deepinfer.ops.Ops` for CPU tensors; arguments and results are described there.

    Args:
        context: threads and kernels that all ops use. Results depend on neither.
    """

    def __init__(self, context: cpu.Context) -> None:
        self._context = context

    def decode_vectors(self, data: torch.Tensor, format: VectorFormat) -> torch.Tensor:
        return decode_vectors(self._context, data, format)

    def encode_vectors(self, x: torch.Tensor, format: VectorFormat) -> torch.Tensor:
        return encode_vectors(self._context, x, format)

    def grouped_linear(
        self, x: torch.Tensor, weight: QuantizedWeight, *, quantize: bool, out_dtype: torch.dtype
    ) -> torch.Tensor:
        return grouped_linear(self._context, x, weight, quantize=quantize, out_dtype=out_dtype)

    def linear(self, x: torch.Tensor, weight: torch.Tensor, out_dtype: torch.dtype) -> torch.Tensor:
        return linear(self._context, x, weight, out_dtype)

    def moe(
        self,
        x: torch.Tensor,
        ids: torch.Tensor,
        weights: torch.Tensor,
        w1: QuantizedWeight,
        w3: QuantizedWeight,
        w2: QuantizedWeight,
        shared: tuple[QuantizedWeight, QuantizedWeight, QuantizedWeight],
        *,
        limit: float,
        quantize: bool,
        act_dtype: torch.dtype,
    ) -> torch.Tensor:
        return moe(
            self._context, x, ids, weights, w1, w3, w2, shared, limit=limit, quantize=quantize, act_dtype=act_dtype
        )

    def quantized_linear(
        self, x: torch.Tensor, weight: QuantizedWeight, *, quantize: bool, out_dtype: torch.dtype
    ) -> torch.Tensor:
        return quantized_linear(self._context, x, weight, quantize=quantize, out_dtype=out_dtype)

    def round_vectors(self, x: torch.Tensor, rounding: KVRounding) -> torch.Tensor:
        return round_vectors(self._context, x, rounding)
