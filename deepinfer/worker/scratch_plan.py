"""A step plan of no scheduler: sequences that pretend to have a context."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deepinfer.worker.forward_plan import ForwardPlan


@dataclass(frozen=True, slots=True)
class ScratchPlan(ForwardPlan):
    """A decode step of S sequences of equal context on the same blocks."""

    @classmethod
    def build(
        cls, token_ids: np.ndarray, lengths: list[int], context_len: int, num_blocks: int, num_lookback: int
    ) -> ScratchPlan:
        """Args:
        token_ids: int32 [T] tokens of all rows.
        lengths: rows per sequence, T in all.
        context_len: tokens that every sequence pretends to have.
        num_blocks: blocks of every sequence, the first ones of the cache.
        num_lookback: tokens named before a first row (Engram); its own token stands for them.
        """
        ends = np.cumsum(lengths, dtype=np.int32)
        firsts = ends - np.asarray(lengths, dtype=np.int32)
        offsets = np.arange(len(token_ids), dtype=np.int32) - np.repeat(firsts, lengths)
        count = len(lengths)
        return cls(
            kind="decode",
            previous_step_id=-1,
            seq_ids=np.arange(count),
            cu_seqlens_q=np.concatenate((np.zeros(1, np.int32), ends)),
            context_lens=np.full(count, context_len, np.int32),
            window_starts=np.zeros(count, np.int32),
            entry_starts=np.zeros(count, np.int32),
            consumer_starts=np.zeros(count, np.int32),
            state_slots=np.arange(count, dtype=np.int32),
            block_ids=np.tile(np.arange(num_blocks, dtype=np.int32), count),
            cu_blocks=np.arange(count + 1, dtype=np.int32) * num_blocks,
            token_ids=token_ids,
            positions=context_len + offsets,
            lookback_ids=np.repeat(token_ids[firsts][:, None], num_lookback, axis=1),
            remap=np.full(count, -1, np.int32),
            draft_caps=np.asarray(lengths, dtype=np.int32) - 1,
            max_lens=np.full(count, context_len + max(lengths) + 1, np.int32),
            num_draft_rows=len(token_ids) - count,
            rate_factors=np.ones(max(lengths) - 1, np.float32),
            keeps_draft_context=True,
        )
