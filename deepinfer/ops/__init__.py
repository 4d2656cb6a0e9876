"""Ops: the contract, the choice of a backend, and the backends."""

from deepinfer.core.ngram_hash import NgramHash
from deepinfer.core.route_result import RouteResult
from deepinfer.ops.contract import Ops
from deepinfer.ops.primitive_ops import PrimitiveOps
from deepinfer.ops.reference.ngram_hash import ngram_hash
from deepinfer.ops.select import select_backend
from deepinfer.ops.selected_backend import SelectedBackend

__all__ = ["NgramHash", "Ops", "PrimitiveOps", "RouteResult", "SelectedBackend", "ngram_hash", "select_backend"]
