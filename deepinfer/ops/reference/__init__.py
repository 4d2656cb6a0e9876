"""The reference backend: every op in plain torch; the specification and the oracle of the others."""

import sys
from functools import partial
from typing import cast

from deepinfer.core.ngram_hash import NgramHash
from deepinfer.core.route_result import RouteResult
from deepinfer.ops import composed
from deepinfer.ops.primitive_ops import PrimitiveOps
from deepinfer.ops.reference.apply_rope import apply_rope
from deepinfer.ops.reference.attend_vectors import attend_vectors
from deepinfer.ops.reference.decode_vectors import decode_vectors
from deepinfer.ops.reference.dequantize_fp4_group16 import dequantize_fp4_group16
from deepinfer.ops.reference.dequantize_fp4_group32 import dequantize_fp4_group32
from deepinfer.ops.reference.dequantize_fp8_group32 import dequantize_fp8_group32
from deepinfer.ops.reference.dequantize_weight import dequantize_weight
from deepinfer.ops.reference.encode_vectors import encode_vectors
from deepinfer.ops.reference.engram_gate import engram_gate
from deepinfer.ops.reference.engram_lookup import engram_lookup
from deepinfer.ops.reference.expand_embedding import expand_embedding
from deepinfer.ops.reference.expert_mlp import expert_mlp
from deepinfer.ops.reference.gather_rows import gather_rows
from deepinfer.ops.reference.grouped_linear import grouped_linear
from deepinfer.ops.reference.hc_mix import hc_mix
from deepinfer.ops.reference.hc_read import hc_read
from deepinfer.ops.reference.hc_write import hc_write
from deepinfer.ops.reference.index_scores import index_scores
from deepinfer.ops.reference.linear import linear
from deepinfer.ops.reference.map_rows import map_rows
from deepinfer.ops.reference.matmul import matmul_rows
from deepinfer.ops.reference.moe import moe
from deepinfer.ops.reference.ngram_hash import ngram_hash
from deepinfer.ops.reference.ngram_rows import ngram_rows
from deepinfer.ops.reference.pool_pairs import pool_pairs
from deepinfer.ops.reference.quantize_fp4_group16 import quantize_fp4_group16
from deepinfer.ops.reference.quantize_fp4_group32 import quantize_fp4_group32
from deepinfer.ops.reference.quantize_fp8_group32 import quantize_fp8_group32
from deepinfer.ops.reference.quantized_linear import quantized_linear
from deepinfer.ops.reference.resolve_rows import resolve_rows
from deepinfer.ops.reference.restrict_to_blocks import restrict_to_blocks
from deepinfer.ops.reference.rms_norm import rms_norm
from deepinfer.ops.reference.rope_table import rope_table
from deepinfer.ops.reference.round_vectors import round_vectors
from deepinfer.ops.reference.route import route
from deepinfer.ops.reference.select_blocks import select_blocks
from deepinfer.ops.reference.select_topk import select_topk
from deepinfer.ops.reference.sum_experts import sum_experts
from deepinfer.ops.reference.tree_sum import tree_sum

_PRIMITIVES = cast(PrimitiveOps, sys.modules[__name__])
compress_pairs = partial(composed.compress_pairs, _PRIMITIVES)
hc_read_norm = partial(composed.hc_read_norm, _PRIMITIVES)
hc_step = partial(composed.hc_step, _PRIMITIVES)
rotate_grouped_linear = partial(composed.rotate_grouped_linear, _PRIMITIVES)
select_entries = partial(composed.select_entries, _PRIMITIVES)
sparse_attention = partial(composed.sparse_attention, _PRIMITIVES)
store_vectors = partial(composed.store_vectors, _PRIMITIVES)

__all__ = [
    "NgramHash",
    "RouteResult",
    "apply_rope",
    "attend_vectors",
    "compress_pairs",
    "decode_vectors",
    "dequantize_fp4_group16",
    "dequantize_fp4_group32",
    "dequantize_fp8_group32",
    "dequantize_weight",
    "encode_vectors",
    "engram_gate",
    "engram_lookup",
    "expand_embedding",
    "expert_mlp",
    "gather_rows",
    "grouped_linear",
    "hc_mix",
    "hc_read",
    "hc_read_norm",
    "hc_step",
    "hc_write",
    "index_scores",
    "linear",
    "map_rows",
    "matmul_rows",
    "moe",
    "ngram_hash",
    "ngram_rows",
    "pool_pairs",
    "quantize_fp4_group16",
    "quantize_fp4_group32",
    "quantize_fp8_group32",
    "quantized_linear",
    "resolve_rows",
    "restrict_to_blocks",
    "rms_norm",
    "rope_table",
    "rotate_grouped_linear",
    "round_vectors",
    "route",
    "select_blocks",
    "select_entries",
    "select_topk",
    "sparse_attention",
    "store_vectors",
    "sum_experts",
    "tree_sum",
]
