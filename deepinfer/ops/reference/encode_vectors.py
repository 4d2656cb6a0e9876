"""Vectors as the bytes a cache stores."""

from __future__ import annotations

import torch

from deepinfer.core.cache_spec import KVRounding, VectorFormat
from deepinfer.ops.reference.quantize_fp4_group16 import quantize_fp4_group16
from deepinfer.ops.reference.quantize_fp4_group32 import quantize_fp4_group32
from deepinfer.ops.reference.quantize_fp8_group32 import quantize_fp8_group32
from deepinfer.ops.reference.round_vectors import round_vectors


def encode_vectors(x: torch.Tensor, format: VectorFormat) -> torch.Tensor:
    """Round vectors and lay them out: data bytes, then scale bytes (packed), or the rounded values as float32.

    Args:
        x: bf16 or float32 [n, dim].
        format: dim, quantizer and layout.

    Returns:
        uint8 [n, format.num_bytes].
    """
    if not format.packed or format.rounding is KVRounding.NONE:
        return round_vectors(x, format.rounding).contiguous().view(torch.uint8)
    if format.rounding is KVRounding.FP8_GROUP32:
        codes, scales = quantize_fp8_group32(x)
    elif format.rounding is KVRounding.FP4_GROUP32:
        codes, scales = quantize_fp4_group32(x)
    else:
        codes, scales = quantize_fp4_group16(x)
    return torch.cat((codes.view(torch.uint8), scales), dim=-1)
