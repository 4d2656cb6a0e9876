"""The op contract over native CPU kernels."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import cast

from deepinfer._C import cpu
from deepinfer.ops import composed, reference
from deepinfer.ops.cpu.apply_rope import apply_rope
from deepinfer.ops.cpu.attend_vectors import attend_vectors
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
from deepinfer.ops.cpu.pool_pairs import pool_pairs
from deepinfer.ops.cpu.quantized_linear import quantized_linear
from deepinfer.ops.cpu.restrict_to_blocks import restrict_to_blocks
from deepinfer.ops.cpu.rms_norm import rms_norm
from deepinfer.ops.cpu.round_vectors import round_vectors
from deepinfer.ops.cpu.route import route
from deepinfer.ops.cpu.select_blocks import select_blocks
from deepinfer.ops.cpu.select_topk import select_topk
from deepinfer.ops.primitive_ops import PrimitiveOps

_OPS = (
    apply_rope,
    attend_vectors,
    decode_vectors,
    encode_vectors,
    engram_gate,
    engram_lookup,
    grouped_linear,
    hc_mix,
    hc_read,
    hc_write,
    index_scores,
    linear,
    moe,
    ngram_rows,
    pool_pairs,
    quantized_linear,
    restrict_to_blocks,
    rms_norm,
    round_vectors,
    route,
    select_blocks,
    select_topk,
)


def cpu_ops(context: cpu.Context) -> PrimitiveOps:
    """`deepinfer.ops.Ops` for CPU tensors, and what its compound ops are made of; see there.

    The rotary table is made once, at load, the streams once a step, rows are taken once or twice a step, experts'
    outputs are added here only where other ranks have some, and rows are made on the device, and mapped, only in steps
    that run from static tensors, so these stay the reference's.

    Args:
        context: threads and kernels that all ops use. Results depend on neither.
    """
    names = ("expand_embedding", "gather_rows", "map_rows", "resolve_rows", "rope_table", "sum_experts")
    shared = {name: getattr(reference, name) for name in names}
    bound = {function.__name__: partial(function, context) for function in _OPS}
    ops = cast(PrimitiveOps, SimpleNamespace(**bound, **shared))
    for name in composed.__all__:
        setattr(ops, name, partial(getattr(composed, name), ops))
    return ops
