"""A sum in a fixed order inside kernels."""

from collections.abc import Sequence
from typing import Any

import tilelang.language as T


def tree_sum(terms: Sequence[Any]) -> Any:
    """Sum of float32 expressions as a halving tree, as if padded to a power of two: the reference's `tree_sum`."""
    terms = list(terms)
    while len(terms) > 1:
        half = 1 << ((len(terms) - 1).bit_length() - 1)
        terms = [T.ieee_add(terms[i], terms[half + i]) if half + i < len(terms) else terms[i] for i in range(half)]
    return terms[0]
