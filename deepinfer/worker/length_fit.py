"""How many sequences of a length, and how long a single one, fit into a given memory: before anything is loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.config.numerics import Numerics
from deepinfer.worker.kv_cache import block_bytes, cache_table, slot_bytes
from deepinfer.worker.reference_scratch import ReferenceScratch

_BLOCK_SIZE = 128
_MOST_SEQS = 2**20  # as many as a scheduler may have


@dataclass(frozen=True, slots=True)
class LengthFit:
    """Caches, rotary tables and a step's scratch in what weights leave (worker/memory.py), in numerics official.

    Attributes:
        num_tokens: tokens of a sequence that was asked about.
        num_rows: rows of the largest step.
        scratch_bytes: what that step takes at this length (worker/reference_scratch.py).
        num_seqs: sequences of that length that fit at once; 0: not one.
        longest: tokens of the longest single sequence that fits, at most max_position_embeddings; 0: none.
    """

    num_tokens: int
    num_rows: int
    scratch_bytes: int
    num_seqs: int
    longest: int

    @classmethod
    def of(cls, config: DeepSeekV41Config, free_bytes: int, num_tokens: int, num_rows: int) -> LengthFit:
        """For `free_bytes` beside the weights."""
        table = cache_table(config, Numerics.OFFICIAL, "auto", _BLOCK_SIZE)

        def need(num_seqs: int, length: int) -> int:
            scratch = ReferenceScratch(config, num_rows, min(num_seqs, num_rows), length).num_bytes
            blocks = num_seqs * -(-length // _BLOCK_SIZE)
            rotary = 8 * config.qk_rope_head_dim * length  # cos and sin of two tables (models/deepseek_v41/rope.py)
            return blocks * block_bytes(table) + num_seqs * slot_bytes(table) + rotary + scratch

        scratch = ReferenceScratch(config, num_rows, 1, num_tokens).num_bytes
        return cls(
            num_tokens=num_tokens,
            num_rows=num_rows,
            scratch_bytes=scratch,
            num_seqs=_largest(_MOST_SEQS, lambda count: need(count, num_tokens) <= free_bytes),
            longest=_largest(config.max_position_embeddings, lambda length: need(1, length) <= free_bytes),
        )


def _largest(limit: int, fits: Callable[[int], bool]) -> int:
    """The largest number from 1 to `limit` that fits, 0 if none does; whatever is below one that fits does too."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
