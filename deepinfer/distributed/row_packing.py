"""Rows on their way to experts: bytes of values, places and weights behind each other."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from deepinfer.distributed.row_bytes import row_bytes
from deepinfer.ops.reference.dequantize_fp8_group32 import dequantize_fp8_group32
from deepinfer.ops.reference.quantize_fp8_group32 import quantize_fp8_group32


@dataclass(frozen=True, slots=True)
class RowPacking:
    """Where activations pass Q8/32 before the experts, rows travel as its codes and scales: 33 bytes for 32 values. The
    experts quantize what arrives once more, which changes nothing, as every value is one of the quantizer's already.
    Else rows travel as they are.

    Attributes:
        dim: values of a row.
        quantize: whether the experts' inputs pass Q8/32.
        act_dtype: bf16 or float32, of the experts' outputs, and of rows where they are not quantized.
    """

    dim: int
    quantize: bool
    act_dtype: torch.dtype

    def pack(self, x: torch.Tensor, slots: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """x [n, D], slots int64 [n, k] (-1: none), weights float32 [n, k] -> uint8 [n, bytes]."""
        values: tuple[torch.Tensor, ...]
        if self.quantize:
            codes, scales = quantize_fp8_group32(x)
            values = (codes.view(torch.uint8), scales)
        else:
            values = (row_bytes(x.to(self.act_dtype)),)
        return torch.cat((*values, row_bytes(slots.to(torch.int32)), row_bytes(weights)), dim=1)

    def unpack(self, rows: torch.Tensor, num_picks: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The inverse: x as act_dtype [n, D], slots int64 [n, k], weights float32 [n, k]."""
        width = 4 * num_picks
        values, slots, weights = rows.split((rows.shape[1] - 2 * width, width, width), dim=1)
        if self.quantize:
            codes, scales = values.split((self.dim, values.shape[1] - self.dim), dim=1)
            x = dequantize_fp8_group32(codes, scales.contiguous()).to(self.act_dtype)
        else:
            x = self.of_bytes(values)
        return x, _values_of(slots, torch.int32).to(torch.int64), _values_of(weights, torch.float32)

    def of_bytes(self, rows: torch.Tensor) -> torch.Tensor:
        """Values act_dtype [n, D] of what `row_bytes` made of them."""
        return _values_of(rows, self.act_dtype)


def _values_of(rows: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return rows.clone(memory_format=torch.contiguous_format).view(dtype)  # a part of a row may begin at any byte
