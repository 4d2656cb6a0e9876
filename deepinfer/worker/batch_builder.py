"""Turns a step plan's flat arrays into the tensors of a forward pass."""

from __future__ import annotations

import numpy as np
import torch

from deepinfer.core.device_arrays import device_arrays
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
    ngrams = ngram_ids(plan, num_ngrams)
    token_ids, positions, block_ids, ngram_tensor, rows = device_arrays(
        device, plan.token_ids, plan.positions, plan.block_ids, ngrams, logit_rows
    )
    return StepBatch(
        token_ids=token_ids,
        positions=positions,
        block_ids=block_ids,
        ngram_ids=ngram_tensor,
        logit_rows=rows,
        lengths=np.diff(plan.cu_seqlens_q).astype(np.int64),
        starts=plan.context_lens.astype(np.int64),
        state_slots=plan.state_slots.astype(np.int64),
        first_blocks=plan.cu_blocks[:-1].astype(np.int64),
        window_starts=plan.window_starts.astype(np.int64),
        entry_starts=plan.entry_starts.astype(np.int64),
        consumer_starts=plan.consumer_starts.astype(np.int64),
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
