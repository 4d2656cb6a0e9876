"""Compound ops with one definition over primitive ops, for every backend that has these: what they mean, in full."""

from deepinfer.ops.composed.compress_pairs import compress_pairs
from deepinfer.ops.composed.hc_read_norm import hc_read_norm
from deepinfer.ops.composed.hc_step import hc_step
from deepinfer.ops.composed.rotate_grouped_linear import rotate_grouped_linear
from deepinfer.ops.composed.select_entries import select_entries
from deepinfer.ops.composed.sparse_attention import sparse_attention
from deepinfer.ops.composed.store_vectors import store_vectors

__all__ = [
    "compress_pairs",
    "hc_read_norm",
    "hc_step",
    "rotate_grouped_linear",
    "select_entries",
    "sparse_attention",
    "store_vectors",
]
