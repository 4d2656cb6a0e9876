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

    T is the number of rows of the step and may be 0. Activations are bf16 or float32, all maths is float32, results
    are rounded once to the stated dtype. The reference backend (deepinfer/ops/reference) defines every result; a
    backend may only change the order of summation. Formulas: spec/model.md sections named in the reference ops.
    """

    def apply_rope(
        self,
        x: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        *,
        inverse: bool = False,
    ) -> torch.Tensor:
        """Rotate the last r columns as interleaved pairs (x[2j], x[2j+1]) by the angle of pair j (spec/model.md
        4.2).

        x: bf16 or float32 [T, ..., d]; cos: float32 [T, r/2]; sin: float32 [T, r/2]; inverse: rotate by the
        negative angle. Returns A new tensor like `x`; float32 inside, rounded once; the first d - r columns are
        copied.
        """
        ...

    def compress_pairs(self, score: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """Softmax over the two tokens of every column, applied to their values (spec/model.md 5).

        score: float32 [n, 2, d]; value: float32 [n, 2, d]. Returns float32 [n, d].
        """
        ...

    def decode_vectors(self, data: torch.Tensor, format: VectorFormat) -> torch.Tensor:
        """The inverse of `encode_vectors`: the rounded values.

        data: uint8 [..., format.num_bytes]; format: dim, quantizer and layout. Returns float32 [..., dim].
        """
        ...

    def dequantize_fp4_group16(self, packed: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        """e2m1 * e4m3 scale, exactly.

        packed: uint8 [..., d/2]; scales: uint8 [..., ceil(d/16)], e4m3 bits. Returns float32 [..., d].
        """
        ...

    def dequantize_fp4_group32(self, packed: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        """e2m1 * 2^(scale-127), exactly.

        packed: uint8 [..., d/2]; scales: uint8 [..., ceil(d/32)]. Returns float32 [..., d].
        """
        ...

    def dequantize_fp8_group32(self, codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        """code * 2^(scale-127), exactly.

        codes: float8_e4m3fn (or its bits as uint8) [..., d]; scales: uint8 [..., ceil(d/32)]. Returns float32 [...,
        d].
        """
        ...

    def dequantize_weight(self, weight: QuantizedWeight, rows: tuple[int, int] | None = None) -> torch.Tensor:
        """code * 2^(scale-127), exactly (spec/model.md 2.1).

        weight: one matrix or a stack of them; rows: (begin, end) of the output rows wanted, begin a multiple of 32;
        all when None. Returns float32 [..., end - begin, in].
        """
        ...

    def encode_vectors(self, x: torch.Tensor, format: VectorFormat) -> torch.Tensor:
        """Round vectors and lay them out: data bytes, then scale bytes (packed), or the rounded values as float32.

        x: bf16 or float32 [n, dim]; format: dim, quantizer and layout. Returns uint8 [n, format.num_bytes].
        """
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
        """``streams + sigmoid(sign(dot) * sqrt(max(|dot|, 1e-6))) * value`` (spec/model.md 9.4).

        streams: bf16 or float32 [T, S, D]; keys: bf16 or float32 [T, S, D]; value: bf16 or float32 [T, D];
        q_weight: bf16 or float32 [S, D]; k_weight: bf16 or float32 [S, D]; eps: rms_norm_eps. Returns [T, S, D],
        dtype of `streams`.
        """
        ...

    def engram_lookup(self, rows: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        """Concatenate the table rows of every token (spec/model.md 9.3). Only the rows asked for are read.

        rows: int64 [T, R]; -1 gives zeros; codes: float8_e4m3fn (or its bits as uint8) [V, hd], maybe
        memory-mapped; scales: uint8 [V, ceil(hd/32)]. Returns float32 [T, R*hd] on the device of `rows`.
        """
        ...

    def expert_mlp(
        self,
        x: torch.Tensor,
        w1: QuantizedWeight,
        w3: QuantizedWeight,
        w2: QuantizedWeight,
        row_weight: torch.Tensor | None,
        *,
        limit: float,
        quantize: bool,
        act_dtype: torch.dtype,
    ) -> torch.Tensor:
        """``w2 @ Q8/32(silu(w1 @ x) * (w3 @ x) * row_weight)``, clamped (spec/model.md 8).

        x: float32 [n, D], already quantized values; w1: gate [I, D]; w3: up [I, D]; w2: down [D, I]; row_weight:
        float32 [n], or None for ones; limit: swiglu_limit; quantize: whether the hidden vector passes Q8/32;
        act_dtype: gate, up, the hidden vector and the result are rounded to it. Returns float32 [n, D].
        """
        ...

    def grouped_linear(
        self,
        x: torch.Tensor,
        weight: QuantizedWeight,
        *,
        quantize: bool,
        out_dtype: torch.dtype,
    ) -> torch.Tensor:
        """Group g of a row times weight rows g*R .. (g+1)*R (the wo_a projection, spec/model.md 4.5).

        x: bf16 or float32 [T, G, K]; weight: [G*R, K]; quantize: whether `x` passes Q8/32 first; out_dtype: bf16 or
        float32. Returns out_dtype [T, G*R].
        """
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
        """``m = (fn @ f) * rsqrt(mean(f^2) + norm_eps)`` of the flattened streams, then gates (spec/model.md 3).

        streams: bf16 or float32 [T, S, D]; fn: float32 [S*(S+2), S*D]; base: float32 [S*(S+2)]; scale: float32 [3];
        sinkhorn_iters: column passes of the normalisation; eps: hc_eps; norm_eps: rms_norm_eps. Returns pre [T, S],
        post [T, S], comb [T, S, S], float32; comb's first index is contracted by `hc_write`.
        """
        ...

    def hc_read(self, streams: torch.Tensor, pre: torch.Tensor, out_dtype: torch.dtype) -> torch.Tensor:
        """``sum_i pre[i] * streams[i]`` in float32, rounded once (spec/model.md 3, Read).

        streams: bf16 or float32 [T, S, D]; pre: float32 [T, S]; out_dtype: bf16 or float32. Returns out_dtype [T,
        D].
        """
        ...

    def hc_write(
        self,
        streams: torch.Tensor,
        out: torch.Tensor,
        post: torch.Tensor,
        comb: torch.Tensor,
    ) -> torch.Tensor:
        """``new[j] = post[j] * out + sum_i comb[i][j] * streams[i]`` in float32, rounded once (spec/model.md 3,
        Write).

        streams: bf16 or float32 [T, S, D]; out: bf16 or float32 [T, D], the sublayer's output; post: float32 [T,
        S]; comb: float32 [T, S, S]; its first index is contracted. Returns [T, S, D], dtype of `streams`.
        """
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
        """``scale * sum_h head_weights[h] * relu(q[h] . key)`` of every visible entry (spec/model.md 7).

        q: float32 [T, Hi, di]; head_weights: float32 [T, Hi]; keys: float32 [G, N, di]; entries behind a group's
        end may hold anything; row_group: int64 [T], which group's keys a row looks at; num_visible: int64 [T],
        entries 0 .. num_visible-1 are visible; scale: constant factor; round_bf16: round the scaled score to bf16.
        Returns float32 [T, N]; -inf at invisible entries.
        """
        ...

    def linear(self, x: torch.Tensor, weight: torch.Tensor, out_dtype: torch.dtype) -> torch.Tensor:
        """``x @ weight.T`` in float32, rounded once. A bf16 weight is widened in blocks of output rows, never
        whole.

        x: bf16 or float32 [T, K]; weight: bf16 or float32 [N, K]; out_dtype: bf16 or float32. Returns out_dtype [T,
        N].
        """
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
        """Sum of the chosen experts' outputs and the shared expert's (spec/model.md 8).

        x: bf16 or float32 [T, D]; ids: int64 [T, k] experts, best first; weights: float32 [T, k]; w1: gate stack
        [E, I, D]; w3: up stack [E, I, D]; w2: down stack [E, D, I]; shared: (w1, w3, w2) of the shared expert;
        limit: swiglu_limit; quantize: whether inputs and hidden vectors pass Q8/32; act_dtype: bf16 or float32.
        Returns act_dtype [T, D].
        """
        ...

    def ngram_rows(self, ngram: torch.Tensor, constants: NgramHash) -> torch.Tensor:
        """Multiply-xor hash of the 2- to n-grams that end at the token, one row per order and head (spec/model.md
        9.2).

        ngram: int64 [T, n] compressed ids, nearest first; the pad id where there is none. A negative first id means
        that the token takes no part (image input); constants: the layer's constants. Returns int64 [T, (n-1)*h] row
        numbers, -1 for tokens that take no part.
        """
        ...

    def quantize_fp4_group16(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Quantize compressed entries (spec/model.md 2.3, Q4/16e). A group with NaN or Inf gets a NaN scale.

        x: bf16 or float32 [..., d], d even; a partial last group is allowed. Returns packed uint8 [..., d/2] (even
        column in the low nibble) and scales uint8 [..., ceil(d/16)] (e4m3 bits), value = e2m1 * scale.
        """
        ...

    def quantize_fp4_group32(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Quantize index vectors (spec/model.md 2.3, Q4/32). A group with NaN or Inf gets scale byte 255 (NaN).

        x: bf16 or float32 [..., d], d even; a partial last group is allowed. Returns packed uint8 [..., d/2] (even
        column in the low nibble) and scales uint8 [..., ceil(d/32)], value = e2m1 * 2^(scale-127).
        """
        ...

    def quantize_fp8_group32(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Quantize activations (spec/model.md 2.3, Q8/32). A group with NaN or Inf gets scale byte 255 (NaN).

        x: bf16 or float32 [..., d]; a partial last group is allowed. Returns codes float8_e4m3fn [..., d] and
        scales uint8 [..., ceil(d/32)], value = code * 2^(scale-127).
        """
        ...

    def quantized_linear(
        self,
        x: torch.Tensor,
        weight: QuantizedWeight,
        *,
        quantize: bool,
        out_dtype: torch.dtype,
    ) -> torch.Tensor:
        """``Q8/32(x) @ weight.T`` with float32 accumulation, rounded once (spec/model.md 2.4).

        x: bf16 or float32 [T, K]; weight: one matrix [N, K]; quantize: whether `x` passes Q8/32 first; out_dtype:
        bf16 or float32. Returns out_dtype [T, N].
        """
        ...

    def restrict_to_blocks(self, scores: torch.Tensor, blocks: torch.Tensor, *, block_size: int) -> torch.Tensor:
        """Scores of entries inside the blocks, -inf elsewhere (second level of the two-level index).

        scores: float32 [T, N]; blocks: int64 [T, B] block numbers, -1 for none; block_size: entries per block.
        Returns float32 [T, N].
        """
        ...

    def rms_norm(
        self,
        x: torch.Tensor,
        weight: torch.Tensor | None,
        eps: float,
        out_dtype: torch.dtype,
    ) -> torch.Tensor:
        """``x * rsqrt(mean(x^2) + eps) * weight`` in float32, rounded once (spec/model.md 3).

        x: bf16 or float32 [..., D]; weight: bf16 or float32 [D], or None for ones; eps: added to the mean square;
        out_dtype: bf16 or float32. Returns out_dtype [..., D].
        """
        ...

    def rope_table(
        self,
        theta: float,
        dim: int,
        scaling: RopeScaling | None,
        num_positions: int,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Table of cos and sin of f32(p) * f32(omega_j), the product in float32 (spec/model.md 4.2).

        theta: base of the frequencies; dim: rotated columns (r); scaling: YaRN parameters, or None for plain
        frequencies; num_positions: P. Returns cos, sin: float32 [P, dim/2] on the CPU.
        """
        ...

    def round_vectors(self, x: torch.Tensor, rounding: KVRounding) -> torch.Tensor:
        """Quantize and dequantize; bit-equal to the two ops in turn.

        x: bf16 or float32 [..., d]; rounding: which quantizer; NONE only widens. Returns float32 [..., d].
        """
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
        """Choose experts by ``sqrt(softplus(gate @ x)) + bias``; weigh them without the bias (spec/model.md 8).

        x: bf16 or float32 [T, D]; gate_weight: bf16 or float32 [E, D]; bias: float32 [E], selection only; top_k:
        experts per row; scaling: factor of the weights; normalize: whether the weights are divided by their sum (+
        1e-20) first. Returns ids best first (ties: lower id first), weights, margin.
        """
        ...

    def select_blocks(
        self,
        scores: torch.Tensor,
        num_visible: torch.Tensor,
        *,
        block_size: int,
        num_blocks: int,
    ) -> torch.Tensor:
        """Blocks by their best visible score; the newest visible block always counts (spec/model.md 7).

        scores: float32 [T, N], -inf at invisible entries; num_visible: int64 [T]; block_size: entries per block;
        num_blocks: most blocks per row. Returns int64 [T, num_blocks], ascending, -1 padded; equal scores go to the
        lower number.
        """
        ...

    def select_topk(self, scores: torch.Tensor, k: int) -> torch.Tensor:
        """Numbers of the k highest scores of a row; equal scores go to the lower number, -inf is never chosen.

        scores: float32 [T, N]; k: most entries per row. Returns int64 [T, k], ascending, -1 behind the last chosen.
        """
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
        """One softmax over window, entries and a sink logit; keys are also the values (spec/model.md 4.3, 4.4).

        q: bf16 or float32 [T, H, d]; window_kv: float32 [M, d]; window_index: int64 [T, W] rows of window_kv, -1
        for absent; entries: float32 [T, K, d] or None; entry_valid: bool [T, K]; None when all are; sink: float32
        [H] logits, not scaled; scale: factor of q . k; out_dtype: bf16 or float32. Returns out_dtype [T, H, d].
        """
        ...
