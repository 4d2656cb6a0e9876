"""Vectors from the bytes a cache stores."""

from __future__ import annotations

import torch

from deepinfer.core.cache_spec import KVRounding, VectorFormat
from deepinfer.ops.reference.dequantize_fp4_group16 import dequantize_fp4_group16
from deepinfer.ops.reference.dequantize_fp4_group32 import dequantize_fp4_group32
from deepinfer.ops.reference.dequantize_fp8_group32 import dequantize_fp8_group32


def decode_vectors(data: torch.Tensor, format: VectorFormat) -> torch.Tensor:
    """The inverse of `encode_vectors`: the rounded values.

    Args:
        data: uint8 [..., format.num_bytes].
        format: dim, quantizer and layout.

    Returns:
        float32 [..., dim].
    """
    if not format.packed or format.rounding is KVRounding.NONE:
        return data.contiguous().view(torch.float32)
    split = format.dim if format.rounding is KVRounding.FP8_GROUP32 else format.dim // 2
    codes, scales = data[..., :split], data[..., split:]
    if format.rounding is KVRounding.FP8_GROUP32:
        return dequantize_fp8_group32(codes, scales)
    if format.rounding is KVRounding.FP4_GROUP32:
        return dequantize_fp4_group32(codes, scales)
    return dequantize_fp4_group16(codes, scales)
