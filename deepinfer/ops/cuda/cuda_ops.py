"""The op contract over TileLang kernels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from deepinfer.ops import reference
from deepinfer.ops.contract import Ops
from deepinfer.ops.cuda.apply_rope import apply_rope
from deepinfer.ops.cuda.compress_pairs import compress_pairs
from deepinfer.ops.cuda.engram_gate import engram_gate
from deepinfer.ops.cuda.engram_lookup import engram_lookup
from deepinfer.ops.cuda.expand_embedding import expand_embedding
from deepinfer.ops.cuda.gather_rows import gather_rows
from deepinfer.ops.cuda.hc_mix import hc_mix
from deepinfer.ops.cuda.hc_read import hc_read
from deepinfer.ops.cuda.hc_read_norm import hc_read_norm
from deepinfer.ops.cuda.hc_step import hc_step
from deepinfer.ops.cuda.hc_write import hc_write
from deepinfer.ops.cuda.linear import linear
from deepinfer.ops.cuda.map_rows import map_rows
from deepinfer.ops.cuda.moe import moe
from deepinfer.ops.cuda.ngram_rows import ngram_rows
from deepinfer.ops.cuda.quantized_linear import quantized_linear
from deepinfer.ops.cuda.resolve_rows import resolve_rows
from deepinfer.ops.cuda.rms_norm import rms_norm
from deepinfer.ops.cuda.rotate_grouped_linear import rotate_grouped_linear
from deepinfer.ops.cuda.round_vectors import round_vectors
from deepinfer.ops.cuda.route import route
from deepinfer.ops.cuda.select_entries import select_entries
from deepinfer.ops.cuda.sparse_attention import sparse_attention
from deepinfer.ops.cuda.store_vectors import store_vectors
from deepinfer.ops.cuda.sum_experts import sum_experts

_OPS = (
    apply_rope,
    compress_pairs,
    engram_gate,
    engram_lookup,
    expand_embedding,
    gather_rows,
    hc_mix,
    hc_read,
    hc_read_norm,
    hc_step,
    hc_write,
    map_rows,
    ngram_rows,
    resolve_rows,
    rms_norm,
    round_vectors,
    select_entries,
    store_vectors,
    sum_experts,
)
# With forms for few and many rows.
_PRODUCTS = (linear, moe, quantized_linear, rotate_grouped_linear, route, sparse_attention)


def cuda_ops(batch_invariant: bool) -> Ops:
    """`deepinfer.ops.Ops` for CUDA tensors; arguments and results are described there.

    Kernels are written for bf16 activations (numerics "official"). In the float32 modes, and for cache formats that
    are not packed, an op takes the reference's form, which runs on a GPU too. The rotary table, made once at load, is
    the reference's.

    Args:
        batch_invariant: every op then has one form for all numbers of rows.
    """
    bound: dict[str, Callable[..., Any]] = {function.__name__: function for function in _OPS}
    bound |= {function.__name__: partial(function, batch_invariant) for function in _PRODUCTS}
    return cast(Ops, SimpleNamespace(**bound, rope_table=reference.rope_table))
