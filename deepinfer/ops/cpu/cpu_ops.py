"""The op contract over native CPU kernels."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import cast

from deepinfer._C import cpu
from deepinfer.ops import reference
from deepinfer.ops.contract import Ops
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

_OPS = (
    apply_rope,
    compress_pairs,
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
    quantized_linear,
    restrict_to_blocks,
    rms_norm,
    round_vectors,
    route,
    select_blocks,
    select_topk,
    sparse_attention,
)


def cpu_ops(context: cpu.Context) -> Ops:
    """`deepinfer.ops.Ops` for CPU tensors; arguments and results are described there.

    The rotary table is made once, at load, so it stays the reference's.

    Args:
        context: threads and kernels that all ops use. Results depend on neither.
    """
    bound = {function.__name__: partial(function, context) for function in _OPS}
    return cast(Ops, SimpleNamespace(**bound, rope_table=reference.rope_table))
