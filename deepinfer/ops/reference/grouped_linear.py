"""Block-diagonal product: every group of columns has its own quantized weight rows."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from deepinfer.core.cache_spec import KVRounding
from deepinfer.core.quantized_weight import QuantizedWeight
from deepinfer.ops.reference.dequantize_weight import dequantize_weight
from deepinfer.ops.reference.matmul_grouped import TILE_ROWS, matmul_grouped
from deepinfer.ops.reference.round_vectors import round_vectors


def grouped_linear(x: torch.Tensor, weight: QuantizedWeight, *, quantize: bool, out_dtype: torch.dtype) -> torch.Tensor:
    """Group g of a row times weight rows g*R .. (g+1)*R (the wo_a projection, spec/model.md 4.5).

    Args:
        x: bf16 or float32 [T, G, K].
        weight: [G*R, K].
        quantize: whether `x` passes Q8/32 first.
        out_dtype: bf16 or float32.

    Returns:
        out_dtype [T, G*R].
    """
    num_rows, num_groups, k = x.shape
    x = round_vectors(x, KVRounding.FP8_GROUP32 if quantize else KVRounding.NONE)
    num_tiles = -(-num_rows // TILE_ROWS)
    padded = F.pad(x.transpose(0, 1), (0, 0, 0, num_tiles * TILE_ROWS - num_rows))  # [G, tiles*16, K]
    tiles = padded.reshape(num_groups * num_tiles, TILE_ROWS, k)
    dense = dequantize_weight(weight).view(num_groups, -1, k)
    out = matmul_grouped(tiles, dense, [num_tiles] * num_groups)
    out = out.view(num_groups, num_tiles * TILE_ROWS, dense.shape[1])[:, :num_rows].transpose(0, 1)
    return out.reshape(num_rows, weight.out_features).to(out_dtype)
