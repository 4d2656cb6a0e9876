"""How far an op of a backend may be from the reference on the same inputs: one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import torch

NEAR_TIES: Final = 8  # integers of a whole run that may differ whatever their number: a decode step has few


@dataclass(frozen=True, slots=True)
class OpTolerance:
    """Of float results the relative error |found - wanted| / |wanted|, both norms over a whole result; of integers
    (choices, codes) the share of a run's that differ. Everything not finite has to be the same.

    Attributes:
        bf16: bound of the relative error of bf16 results.
        float32: the same of float32 results.
        share: of integers, beside `NEAR_TIES`; 0 is bit by bit.
        reason: why this much.
    """

    bf16: float
    float32: float
    share: float
    reason: str

    def limit(self, dtype: torch.dtype) -> float:
        """Bound of the relative error of results of a float dtype."""
        return self.bf16 if dtype is torch.bfloat16 else self.float32

    def max_differing(self, count: int) -> float:
        """So many of `count` integers may differ."""
        return NEAR_TIES + self.share * count if self.share else 0.0


_EXACT = OpTolerance(0.0, 0.0, 0.0, "copies, table rows and integers")
_SUMS = OpTolerance(3e-3, 1e-4, 1e-3, "sums in another order; a bf16 result on a rounding edge takes its neighbour")
_CODES = OpTolerance(3e-3, 2e-3, 1e-3, "a value between two products that is on an edge of its quantizer")
_CHOICES = OpTolerance(3e-3, 1e-4, 1e-3, "scores that nearly tie, of sums in another order, fall either way")

OP_TOLERANCES: Final[Mapping[str, OpTolerance]] = MappingProxyType(
    {
        "apply_rope": _SUMS,
        "compress_pairs": _SUMS,
        "engram_gate": _SUMS,
        "engram_lookup": _EXACT,
        "expand_embedding": _EXACT,
        "gather_rows": _EXACT,
        "hc_mix": OpTolerance(3e-3, 3e-5, 0.0, "forty divisions in a row"),
        "hc_read": _SUMS,
        "hc_read_norm": _SUMS,
        "hc_step": OpTolerance(3e-3, 1e-3, 0.0, "a new stream on a rounding edge, which moves the mixing weights"),
        "hc_write": _SUMS,
        "linear": _SUMS,
        "map_rows": _EXACT,
        "moe": _CODES,
        "ngram_rows": _EXACT,
        "quantized_linear": _SUMS,
        "resolve_rows": _EXACT,
        "rms_norm": _SUMS,
        "rope_table": _EXACT,
        "rotate_grouped_linear": _CODES,
        "round_vectors": OpTolerance(3e-3, 2e-3, 0.0, "a value on an edge of the quantizer"),
        "route": _CHOICES,
        "select_entries": _CHOICES,
        "sparse_attention": _SUMS,
        "store_vectors": OpTolerance(3e-3, 1e-4, 1e-3, "a normed value on an edge of the cache's quantizer"),
        "sum_experts": OpTolerance(0.0, 0.0, 0.0, "the same additions in the same order"),
    }
)
