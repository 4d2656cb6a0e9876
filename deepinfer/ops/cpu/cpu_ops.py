"""The op contract over native CPU kernels."""

from __future__ import annotations

import torch

from deepinfer._C import cpu
from deepinfer.config.rope_scaling import RopeScaling
from deepinfer.core.cache_spec import KVRounding, VectorFormat
from deepinfer.core.ngram_hash import NgramHash
from deepinfer.core.quantized_weight import QuantizedWeight
from deepinfer.core.route_result import RouteResult
from deepinfer.ops import reference
from deepinfer.ops.cpu.apply_rope import apply_rope
from deepinfer.ops.cpu.compress_pairs import compress_pairs
from deepinfer.ops.cpu.decode_vectors import decode_vectors
from deepinfer.ops.cpu.encode_vectors import encode_vectors
from deepinfer.ops.cpu.engram_gate import engram_gate
from deepinfer.ops.cpu.engram_lookup import engram_lookup
from deepinfer.ops.cpu.grouped_linear import grouped_linear
from deepinfer.ops.cpu.hc_mix import hc_mix
from deepinfer.ops.cpu.hc_read import hc_read
from deepinfer.ops.cpu.hc_write import hc_write
from deepinfer.ops.cpu.index_scores import index_scores
from deepinfer.ops.cpu.linear import linear
from deepinfer.ops.cpu.moe import moe
from deepinfer.ops.cpu.ngram_rows import ngram_rows
from deepinfer.ops.cpu.quantized_linear import quantized_linear
from deepinfer.ops.cpu.restrict_to_blocks import restrict_to_blocks
from deepinfer.ops.cpu.rms_norm import rms_norm
from deepinfer.ops.cpu.round_vectors import round_vectors
from deepinfer.ops.cpu.route import route
from deepinfer.ops.cpu.select_blocks import select_blocks
from deepinfer.ops.cpu.select_topk import select_topk
from deepinfer.ops.cpu.sparse_attention import sparse_attention


class CpuOps:
    """Implements `deepinfer.ops.Ops` for CPU tensors; arguments and results are described there.

    Args:
        context: threads and kernels that all ops use. Results depend on neither.
    """

    def __init__(self, context: cpu.Context) -> None:
        self._context = context

    def apply_rope(
        self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, inverse: bool = False
    ) -> torch.Tensor:
        return apply_rope(self._context, x, cos, sin, inverse=inverse)

    def compress_pairs(self, score: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return compress_pairs(self._context, score, value)

    def decode_vectors(self, data: torch.Tensor, format: VectorFormat) -> torch.Tensor:
        return decode_vectors(self._context, data, format)

    def encode_vectors(self, x: torch.Tensor, format: VectorFormat) -> torch.Tensor:
        return encode_vectors(self._context, x, format)

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
        return engram_gate(self._context, streams, keys, value, q_weight, k_weight, eps=eps)

    def engram_lookup(self, rows: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        return engram_lookup(self._context, rows, codes, scales)

    def grouped_linear(
        self, x: torch.Tensor, weight: QuantizedWeight, *, quantize: bool, out_dtype: torch.dtype
    ) -> torch.Tensor:
        return grouped_linear(self._context, x, weight, quantize=quantize, out_dtype=out_dtype)

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
        return hc_mix(
            self._context, streams, fn, base, scale, sinkhorn_iters=sinkhorn_iters, eps=eps, norm_eps=norm_eps
        )

    def hc_read(self, streams: torch.Tensor, pre: torch.Tensor, out_dtype: torch.dtype) -> torch.Tensor:
        return hc_read(self._context, streams, pre, out_dtype)

    def hc_write(
        self,
        streams: torch.Tensor,
        out: torch.Tensor,
        post: torch.Tensor,
        comb: torch.Tensor,
    ) -> torch.Tensor:
        return hc_write(self._context, streams, out, post, comb)

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
        return index_scores(
            self._context, q, head_weights, keys, row_group, num_visible, scale=scale, round_bf16=round_bf16
        )

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

    def ngram_rows(self, ngram: torch.Tensor, constants: NgramHash) -> torch.Tensor:
        return ngram_rows(self._context, ngram, constants)

    def quantized_linear(
        self, x: torch.Tensor, weight: QuantizedWeight, *, quantize: bool, out_dtype: torch.dtype
    ) -> torch.Tensor:
        return quantized_linear(self._context, x, weight, quantize=quantize, out_dtype=out_dtype)

    def restrict_to_blocks(self, scores: torch.Tensor, blocks: torch.Tensor, *, block_size: int) -> torch.Tensor:
        return restrict_to_blocks(self._context, scores, blocks, block_size=block_size)

    def rms_norm(
        self, x: torch.Tensor, weight: torch.Tensor | None, eps: float, out_dtype: torch.dtype
    ) -> torch.Tensor:
        return rms_norm(self._context, x, weight, eps, out_dtype)

    def rope_table(
        self, theta: float, dim: int, scaling: RopeScaling | None, num_positions: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return reference.rope_table(theta, dim, scaling, num_positions)

    def round_vectors(self, x: torch.Tensor, rounding: KVRounding) -> torch.Tensor:
        return round_vectors(self._context, x, rounding)

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
        return route(self._context, x, gate_weight, bias, top_k=top_k, scaling=scaling, normalize=normalize)

    def select_blocks(
        self,
        scores: torch.Tensor,
        num_visible: torch.Tensor,
        *,
        block_size: int,
        num_blocks: int,
    ) -> torch.Tensor:
        return select_blocks(self._context, scores, num_visible, block_size=block_size, num_blocks=num_blocks)

    def select_topk(self, scores: torch.Tensor, k: int) -> torch.Tensor:
        return select_topk(self._context, scores, k)

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
        return sparse_attention(
            self._context, q, window_kv, window_index, entries, entry_valid, sink, scale=scale, out_dtype=out_dtype
        )
