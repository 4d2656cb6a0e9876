"""Turns a step plan's flat arrays into the tensors of a forward pass."""

from __future__ import annotations

import numpy as np
import torch

from deepinfer.core.step_batch import StepBatch
from deepinfer.core.step_plan import ForwardPlan


def build_batch(plan: ForwardPlan, logit_rows: np.ndarray, num_ngrams: int, device: torch.device) -> StepBatch:
    """Pack a plan for the model.

    Args:
        plan: S sequences with T rows.
        logit_rows: int64 [L] rows whose hidden state is wanted, ascending.
        num_ngrams: tokens per n-gram context, the row's own included; 0 without Engram.
        device: where the tensors go.
    """
    lengths = np.diff(plan.cu_seqlens_q)

    def tensor(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array.astype(np.int64)).to(device)

    return StepBatch(
        token_ids=tensor(plan.token_ids),
        positions=tensor(plan.positions),
        row_seq=tensor(np.repeat(np.arange(len(lengths)), lengths)),
        cu_seqlens_q=tensor(plan.cu_seqlens_q),
        context_lens=tensor(plan.context_lens),
        state_slots=tensor(plan.state_slots),
        block_ids=tensor(plan.block_ids),
        first_blocks=tensor(plan.cu_blocks[:-1]),
        ngram_ids=tensor(ngram_ids(plan, num_ngrams)),
        logit_rows=tensor(logit_rows),
        seq_lens_q=tuple(lengths.tolist()),
        starts=tuple(plan.context_lens.tolist()),
        window_starts=tuple(plan.window_starts.tolist()),
        entry_starts=tuple(plan.entry_starts.tolist()),
        consumer_starts=tuple(plan.consumer_starts.tolist()),
    )


def ngram_ids(plan: ForwardPlan, num_ngrams: int) -> np.ndarray:
    """Each row's token and its predecessors, nearest first: int32 [T, num_ngrams], -1 before the start."""
    rows = len(plan.token_ids)
    ids = np.empty((rows, num_ngrams), dtype=np.int32)
    if not num_ngrams or not rows:
        return ids
    first_row = np.repeat(plan.cu_seqlens_q[:-1], np.diff(plan.cu_seqlens_q))
    seq = np.repeat(np.arange(len(plan.seq_ids)), np.diff(plan.cu_seqlens_q))
    offset = np.arange(rows) - first_row
    ids[:, 0] = plan.token_ids
    for back in range(1, num_ngrams):
        in_step = offset >= back
        ids[in_step, back] = plan.token_ids[np.flatnonzero(in_step) - back]
        outside = ~in_step
        ids[outside, back] = plan.lookback_ids[seq[outside], back - offset[outside] - 1]
    return ids
