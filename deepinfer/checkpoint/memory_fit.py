"""Whether a model and its caches fit into a given memory."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MemoryFit:
    """Weights against a memory size; image tensors are never loaded, draft tensors are counted in.

    Attributes:
        memory_bytes: memory asked about.
        weight_bytes: all text and draft weights.
        table_bytes: the Engram tables among them; they may stay in host memory or on disk.
        fits: everything fits.
        fits_without_tables: everything but the tables fits.
        kv_tokens: tokens of KV cache in what is left by everything, one sequence's state taken off.
        kv_tokens_without_tables: the same when the tables are elsewhere.
    """

    memory_bytes: int
    weight_bytes: int
    table_bytes: int
    fits: bool
    fits_without_tables: bool
    kv_tokens: int
    kv_tokens_without_tables: int
