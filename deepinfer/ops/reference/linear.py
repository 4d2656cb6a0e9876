"""Product with an unquantized weight matrix."""

from __future__ import annotations

import torch

from deepinfer.ops.reference.matmul import matmul_rows

_BLOCK_ELEMENTS = 1 << 20  # weights widened at a time
_BLOCK_ROWS = 64  # a block is a multiple of this


def linear(x: torch.Tensor, weight: torch.Tensor, out_dtype: torch.dtype) -> torch.Tensor:
    """``x @ weight.T`` in float32, rounded once. A bf16 weight is widened in blocks of output rows, never whole.

    Args:
        x: bf16 or float32 [T, K].
        weight: bf16 or float32 [N, K].
        out_dtype: bf16 or float32.

    Returns:
        out_dtype [T, N].
    """
    x = x.to(torch.float32)
    if weight.dtype == torch.float32:
        return matmul_rows(x, weight).to(out_dtype)
    num_out, k = weight.shape
    block = max(_BLOCK_ROWS, _BLOCK_ELEMENTS // k // _BLOCK_ROWS * _BLOCK_ROWS)
    blocks = [weight[begin : begin + block] for begin in range(0, num_out, block)]
    parts = [matmul_rows(x, rows.to(torch.float32)).to(out_dtype) for rows in blocks]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
