"""The op contract: every backend module has these functions, with these signatures."""

from __future__ import annotations

from typing import Protocol

import torch

from deepinfer.config.rope_scaling import RopeScaling
from deepinfer.core.cache_spec import KVRounding, VectorFormat
from deepinfer.core.ngram_hash import NgramHash
from deepinfer.core.quantized_weight import QuantizedWeight
from deepinfer.core.route_result import RouteResult


class Ops(Protocol):
    """What model code may call. A backend is a module; `deepinfer.ops.select` picks one at load.

    The reference backend (deepinfer/ops/reference) defines every result; its docstrings have the formulas and every
    argument. A backend may only change the order of summation. Here are the shapes: T is the number of rows of the step
    and may be 0; activations without a stated dtype are bf16 or float32 (f32); all maths is float32 and results are
    rounded once to the stated dtype.
    """

    def apply_rope(
        self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, inverse: bool = False
    ) -> torch.Tensor:
        """x [T, ..., d], cos and sin f32 [T, r/2] -> like `x`, its last r columns rotated."""
        ...

    def compress_pairs(self, score: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """score, value f32 [n, 2, d] -> f32 [n, d]."""
        ...

    def decode_vectors(self, data: torch.Tensor, format: VectorFormat) -> torch.Tensor:
        """uint8 [..., format.num_bytes] -> f32 [..., dim]."""
        ...

    def encode_vectors(self, x: torch.Tensor, format: VectorFormat) -> torch.Tensor:
        """x [n, dim] -> uint8 [n, format.num_bytes]."""
        ...

    def engram_gate(
        self,
        streams: torch.Tensor,
        keys: torch.Tensor,
        value: torch.Tensor,
        q_weight: torch.Tensor,
        k_weight: torch.Tensor,
        *,
        eps: float,
    ) -> torch.Tensor:
        """streams, keys [T, S, D], value [T, D], q_weight, k_weight [S, D] -> like `streams`."""
        ...

    def engram_lookup(self, rows: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        """rows int64 [T, R] (-1: zeros), codes e4m3 [V, hd], scales uint8 [V, ceil(hd/32)] -> f32 [T, R*hd]."""
        ...

    def grouped_linear(
        self, x: torch.Tensor, weight: QuantizedWeight, *, quantize: bool, out_dtype: torch.dtype
    ) -> torch.Tensor:
        """x [T, G, K], weight [G*R, K] -> out_dtype [T, G*R]."""
        ...

    def hc_mix(
        self,
        streams: torch.Tensor,
        fn: torch.Tensor,
        base: torch.Tensor,
        scale: torch.Tensor,
        *,
        sinkhorn_iters: int,
        eps: float,
        norm_eps: float,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """streams [T, S, D], fn f32 [S*(S+2), S*D], base f32 [S*(S+2)], scale f32 [3] -> f32 pre [T, S], post [T, S],
        comb [T, S, S].
        """
        ...

    def hc_read(self, streams: torch.Tensor, pre: torch.Tensor, out_dtype: torch.dtype) -> torch.Tensor:
        """streams [T, S, D], pre f32 [T, S] -> out_dtype [T, D]."""
        ...

    def hc_write(
        self, streams: torch.Tensor, out: torch.Tensor, post: torch.Tensor, comb: torch.Tensor
    ) -> torch.Tensor:
        """streams [T, S, D], out [T, D], post f32 [T, S], comb f32 [T, S, S] -> like `streams`."""
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

    def linear(self, x: torch.Tensor, weight: torch.Tensor, out_dtype: torch.dtype) -> torch.Tensor:
        """x [T, K], weight [N, K] -> out_dtype [T, N]."""
        ...

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
        """x [T, D], ids int64 [T, k], weights f32 [T, k], w1 and w3 [E, I, D], w2 [E, D, I], shared (w1, w3, w2) of one
        expert -> act_dtype [T, D].
        """
        ...

    def ngram_rows(self, ngram: torch.Tensor, constants: NgramHash) -> torch.Tensor:
        """ngram int64 [T, n] -> int64 [T, (n-1)*h], -1 for tokens that take no part."""
        ...

    def quantized_linear(
        self, x: torch.Tensor, weight: QuantizedWeight, *, quantize: bool, out_dtype: torch.dtype
    ) -> torch.Tensor:
        """x [T, K], weight [N, K] -> out_dtype [T, N]."""
        ...

    def restrict_to_blocks(self, scores: torch.Tensor, blocks: torch.Tensor, *, block_size: int) -> torch.Tensor:
        """scores f32 [T, N], blocks int64 [T, B] (-1: none) -> f32 [T, N], -inf outside the blocks."""
        ...

    def rms_norm(
        self, x: torch.Tensor, weight: torch.Tensor | None, eps: float, out_dtype: torch.dtype
    ) -> torch.Tensor:
        """x [..., D], weight [D] or None -> out_dtype [..., D]."""
        ...

    def rope_table(
        self, theta: float, dim: int, scaling: RopeScaling | None, num_positions: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """-> cos, sin f32 [num_positions, dim/2] on the CPU."""
        ...

    def round_vectors(self, x: torch.Tensor, rounding: KVRounding) -> torch.Tensor:
        """x [..., d] -> f32 [..., d]."""
        ...

    def route(
        self,
        x: torch.Tensor,
        gate_weight: torch.Tensor,
        bias: torch.Tensor,
        *,
        top_k: int,
        scaling: float,
        normalize: bool,
    ) -> RouteResult:
        """x [T, D], gate_weight [E, D], bias f32 [E] -> ids int64 [T, k] best first, weights and margin f32."""
        ...

    def select_blocks(
        self, scores: torch.Tensor, num_visible: torch.Tensor, *, block_size: int, num_blocks: int
    ) -> torch.Tensor:
        """scores f32 [T, N], num_visible int64 [T] -> int64 [T, num_blocks], ascending, -1 padded."""
        ...

    def select_topk(self, scores: torch.Tensor, k: int) -> torch.Tensor:
        """scores f32 [T, N] -> int64 [T, k], ascending, -1 padded."""
        ...

    def sparse_attention(
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
