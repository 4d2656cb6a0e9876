"""The op contract: every backend module has these functions, with these signatures."""

from __future__ import annotations

from typing import Protocol

import torch

from deepinfer.config.rope_scaling import RopeScaling
from deepinfer.core.cache_spec import KVRounding, VectorFormat
from deepinfer.core.cache_tensors import VectorCache
from deepinfer.core.decode_batch import DecodeBatch
from deepinfer.core.decode_fields import DecodeFields
from deepinfer.core.decode_rows import DecodeRows
from deepinfer.core.device_outcome import DeviceOutcome
from deepinfer.core.ngram_hash import NgramHash
from deepinfer.core.paged_entries import PagedEntries
from deepinfer.core.quantized_weight import QuantizedWeight
from deepinfer.core.route_result import RouteResult
from deepinfer.core.row_maps import RotaryTable, RowMaps
from deepinfer.core.selection import Selection
from deepinfer.core.step_geometry import StepGeometry


class Ops(Protocol):
    """What model code may call. A backend is a module; `deepinfer.ops.select` picks one at load.

    The reference backend (deepinfer/ops/reference, over deepinfer/ops/composed for compound ops) defines every result;
    its docstrings have the formulas and every argument. A backend may only change the order of summation. Here are the
    shapes: T is the number of rows of the step and may be 0; activations without a stated dtype are bf16 or float32
    (f32); all maths is float32 and results are rounded once to the stated dtype.
    """

    def apply_rope(
        self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, inverse: bool = False
    ) -> torch.Tensor:
        """x [T, ..., d], cos and sin f32 [T, r/2] -> like `x`, its last r columns rotated."""
        ...

    def compress_pairs(
        self,
        new: torch.Tensor,
        state: torch.Tensor,
        second: torch.Tensor,
        carried: torch.Tensor,
        act_dtype: torch.dtype,
    ) -> torch.Tensor:
        """new f32 [T, 2 (score, value), d], state f32 [slots, ring, 2, d], second int64 [n] rows, carried int64 [n]
        places slot * ring + place of `state` (-1: the row before `second`) -> act_dtype [n, d].
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
        """streams, keys [T, S, D], value [T, D], q_weight, k_weight [S, D] -> like `streams`."""
        ...

    def engram_lookup(self, rows: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        """rows int64 [T, R] (-1: zeros), codes e4m3 [V, hd], scales uint8 [V, ceil(hd/32)] -> f32 [T, R*hd]."""
        ...

    def expand_embedding(
        self, token_ids: torch.Tensor, table: torch.Tensor, num_streams: int, out_dtype: torch.dtype
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """token_ids int64 [T], table [V, D] -> streams out_dtype [T, S, D], pre f32 [T, S]."""
        ...

    def gather_rows(self, values: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """values [T, ...] of any dtype, rows int64 [n] -> [n, ...]."""
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

    def hc_read_norm(
        self, streams: torch.Tensor, pre: torch.Tensor, weight: torch.Tensor, eps: float, out_dtype: torch.dtype
    ) -> torch.Tensor:
        """streams [T, S, D], pre f32 [T, S], weight [D] -> out_dtype [T, D]."""
        ...

    def hc_step(
        self,
        streams: torch.Tensor,
        pre: torch.Tensor,
        update: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None,
        weight: torch.Tensor,
        mixing: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
        *,
        sinkhorn_iters: int,
        eps: float,
        norm_eps: float,
        out_dtype: torch.dtype,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """streams [T, S, D], pre f32 [T, S], update (out [T, D], post f32 [T, S], comb f32 [T, S, S]) or None (they
        stay), weight [D], mixing (fn f32 [S*(S+2), S*D], base f32 [S*(S+2)], scale f32 [3]) -> streams, x out_dtype
        [T, D], f32 pre [T, S], post [T, S], comb [T, S, S].
        """
        ...

    def hc_write(
        self, streams: torch.Tensor, out: torch.Tensor, post: torch.Tensor, comb: torch.Tensor
    ) -> torch.Tensor:
        """streams [T, S, D], out [T, D], post f32 [T, S], comb f32 [T, S, S] -> like `streams`."""
        ...

    def linear(self, x: torch.Tensor, weight: torch.Tensor, out_dtype: torch.dtype) -> torch.Tensor:
        """x [T, K], weight [N, K] -> out_dtype [T, N]."""
        ...

    def map_rows(
        self,
        batch: DecodeBatch,
        geometry: StepGeometry,
        ropes: tuple[RotaryTable, RotaryTable],
        vocab: tuple[torch.Tensor, int] | None,
    ) -> RowMaps:
        """batch of T rows, ropes (cos, sin) f32 [P, r/2] of layers without and with compressed entries, vocab (int64
        [V], pad token) or None -> the maps that the layers of a decode step read.
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
        shared: tuple[QuantizedWeight, QuantizedWeight, QuantizedWeight] | None,
        *,
        limit: float,
        quantize: bool,
        act_dtype: torch.dtype,
        likely: int | None = None,
    ) -> torch.Tensor:
        """x [T, D], ids int64 [T, k], weights f32 [T, k], w1 and w3 [E, I, D], w2 [E, D, I], shared (w1, w3, w2) of one
        expert -> act_dtype [T, D]. k may be 0 with a shared expert. Without (None): parts of a sum that is made
        elsewhere, [T * k, D], each pick's output by itself; an id of -1 is then no pick, and its output is anything.
        Of such a call about `likely` ids are picks (None: all), which chooses kernels.
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

    def resolve_rows(
        self, fields: DecodeFields, outcome: DeviceOutcome, rows: DecodeRows, *, splits: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """fields of S sequences; fills T rows and the part of `outcome` that says where they begin -> offsets int64
        [T], n-grams int64 [T, L + 1] (L = 0: [T, 0]).
        """
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

    def rotate_grouped_linear(
        self,
        heads: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        weight: QuantizedWeight,
        *,
        num_groups: int,
        quantize: bool,
        out_dtype: torch.dtype,
    ) -> torch.Tensor:
        """heads [T, H, d], cos and sin f32 [T, r/2], weight [G*R, (H/G)*d] -> out_dtype [T, G*R]."""
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

    def select_entries(
        self,
        q: torch.Tensor,
        head_weights: torch.Tensor,
        entries: PagedEntries,
        num_visible: torch.Tensor,
        candidates: torch.Tensor | None,
        *,
        max_visible: int,
        topk: int,
        scale: float,
        round_bf16: bool,
        block_size: int,
        num_blocks: int,
        with_margins: bool,
    ) -> Selection:
        """q f32 [T, Hi, di], head_weights f32 [T, Hi], num_visible int64 [T], candidates int64 [T, B] (-1: none) or
        None -> picks int64 [T, topk], blocks int64 [T, num_blocks], margins f32 [T]. Blocks of rows that see at most
        `topk` entries may be -1: such rows take all entries in every layer.
        """
        ...

    def sparse_attention(
        self,
        q: torch.Tensor,
        window: torch.Tensor,
        window_index: torch.Tensor,
        entries: PagedEntries | None,
        picks: torch.Tensor | None,
        sink: torch.Tensor,
        *,
        window_format: VectorFormat,
        scale: float,
        out_dtype: torch.dtype,
    ) -> torch.Tensor:
        """q [T, H, d], window uint8 [M, window_format.num_bytes], window_index int64 [T, W] (-1: absent), picks int64
        [T, K] (-1: absent) or None, sink f32 [H] -> out_dtype [T, H, d].
        """
        ...

    def store_vectors(
        self,
        x: torch.Tensor,
        weight: torch.Tensor | None,
        cos: torch.Tensor,
        sin: torch.Tensor,
        cache: VectorCache,
        units: torch.Tensor,
        places: torch.Tensor,
        *,
        eps: float,
        act_dtype: torch.dtype,
    ) -> None:
        """x [n, d], weight [d] or None (no norm), cos and sin f32 [n, r/2], units (-1: not stored) and places
        int64 [n]; writes into `cache`.
        """
        ...

    def sum_experts(self, routed: torch.Tensor, shared: torch.Tensor) -> torch.Tensor:
        """routed [T, k, D] best first, shared [T, D] -> [T, D] of the same dtype: the sum that `moe` makes."""
        ...
