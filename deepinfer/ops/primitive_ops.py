"""Ops below the contract: what the composed ops are made of."""

from __future__ import annotations

from typing import Protocol

import torch

from deepinfer.core.cache_spec import VectorFormat
from deepinfer.core.quantized_weight import QuantizedWeight
from deepinfer.ops.contract import Ops


class PrimitiveOps(Ops, Protocol):
    """A backend that has these and the simple ops of the contract gets the compound ones from `deepinfer.ops.composed`.

    Model code never calls them; conventions are those of `Ops`.
    """

    def attend_vectors(
        self,
        q: torch.Tensor,
        window_kv: torch.Tensor,
        window_index: torch.Tensor,
        entries: torch.Tensor | None,
        entry_valid: torch.Tensor | None,
        sink: torch.Tensor,
        *,
        scale: float,
        out_dtype: torch.dtype,
    ) -> torch.Tensor:
        """q [T, H, d], window_kv f32 [M, d], window_index int64 [T, W] (-1: absent), entries f32 [T, K, d] or None,
        entry_valid bool [T, K] or None (all), sink f32 [H] -> out_dtype [T, H, d].
        """
        ...

    def decode_vectors(self, data: torch.Tensor, format: VectorFormat) -> torch.Tensor:
        """uint8 [..., format.num_bytes] -> f32 [..., dim]."""
        ...

    def encode_vectors(self, x: torch.Tensor, format: VectorFormat) -> torch.Tensor:
        """x [n, dim] -> uint8 [n, format.num_bytes]."""
        ...

    def grouped_linear(
        self, x: torch.Tensor, weight: QuantizedWeight, *, quantize: bool, out_dtype: torch.dtype
    ) -> torch.Tensor:
        """x [T, G, K], weight [G*R, K] -> out_dtype [T, G*R]."""
        ...

    def index_scores(
        self,
        q: torch.Tensor,
        head_weights: torch.Tensor,
        keys: torch.Tensor,
        row_group: torch.Tensor,
        num_visible: torch.Tensor,
        *,
        scale: float,
        round_bf16: bool,
    ) -> torch.Tensor:
        """q f32 [T, Hi, di], head_weights f32 [T, Hi], keys f32 [G, N, di], row_group int64 [T], num_visible int64 [T]
        -> f32 [T, N], -inf at invisible entries.
        """
        ...

    def pool_pairs(self, score: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """score, value f32 [n, 2, d] -> f32 [n, d]."""
        ...

    def restrict_to_blocks(self, scores: torch.Tensor, blocks: torch.Tensor, *, block_size: int) -> torch.Tensor:
        """scores f32 [T, N], blocks int64 [T, B] (-1: none) -> f32 [T, N], -inf outside the blocks."""
        ...

    def select_blocks(
        self, scores: torch.Tensor, num_visible: torch.Tensor, *, block_size: int, num_blocks: int
    ) -> torch.Tensor:
        """scores f32 [T, N], num_visible int64 [T] -> int64 [T, num_blocks], ascending, -1 padded."""
        ...

    def select_topk(self, scores: torch.Tensor, k: int) -> torch.Tensor:
        """scores f32 [T, N] -> int64 [T, k], ascending, -1 padded."""
        ...
