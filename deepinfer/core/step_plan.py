"""The scheduler's decision for one step, as the Python side reads it."""

from __future__ import annotations

from typing import Protocol

import numpy as np


class ForwardPlan(Protocol):
    """What a forward pass reads of a plan; fields as in `StepPlan`."""

    @property
    def kind(self) -> str: ...
    @property
    def previous_step_id(self) -> int: ...
    @property
    def seq_ids(self) -> np.ndarray: ...
    @property
    def cu_seqlens_q(self) -> np.ndarray: ...
    @property
    def context_lens(self) -> np.ndarray: ...
    @property
    def window_starts(self) -> np.ndarray: ...
    @property
    def entry_starts(self) -> np.ndarray: ...
    @property
    def consumer_starts(self) -> np.ndarray: ...
    @property
    def state_slots(self) -> np.ndarray: ...
    @property
    def block_ids(self) -> np.ndarray: ...
    @property
    def cu_blocks(self) -> np.ndarray: ...
    @property
    def token_ids(self) -> np.ndarray: ...
    @property
    def positions(self) -> np.ndarray: ...
    @property
    def lookback_ids(self) -> np.ndarray: ...
    @property
    def remap(self) -> np.ndarray: ...
    @property
    def draft_caps(self) -> np.ndarray: ...
    @property
    def max_lens(self) -> np.ndarray: ...
    @property
    def num_draft_rows(self) -> int: ...
    @property
    def rate_factors(self) -> np.ndarray: ...
    @property
    def keeps_draft_context(self) -> bool: ...


class StepPlan(ForwardPlan, Protocol):
    """S sequences, T rows. Made in C++ (`deepinfer._C.StepPlan`); tests may hand in any object of this shape.

    An exact plan says what to compute. A linked one (always a decode step) was made while the step before it was in
    flight and knows only bounds of the sequences that are in both; `StepPlan.resolve` of `deepinfer._C` has the rules
    that make it exact, on the host or on the device.

    Attributes:
        step_id: running number of the step.
        previous_step_id: the step in flight that a linked plan goes on from; -1 in an exact plan.
        kind: "prefill", "decode" or "empty".
        seq_ids: int64 [S].
        cu_seqlens_q: int32 [S+1] prefix sums of rows.
        context_lens: int32 [S] tokens in the caches before this step.
        window_starts: int32 [S] first position that windows may look at (behind a saved prefix), else 0.
        entry_starts: int32 [S] first position whose entries are to be written; those before are there already.
        consumer_starts: int32 [S] first position that has a row in the consumer layers (YOCO); 0: all have.
        state_slots: int32 [S].
        block_ids, cu_blocks: int32 block tables, flat, with prefix sums [S+1].
        token_ids, positions: int32 [T].
        lookback_ids: int32 [S, num_lookback] tokens before the sequence's first row, nearest first; -1 before the
            start.
        keeps_draft_context: whether the rows leave the draft model the context that later drafts are made from; an
            executor may do so all the same.
        samples: bool [S], whether the last row yields a token.
        num_drafts: int32 [S] drafts to judge: a decoding sequence's rows are its newest token and then these.
        draft_caps: int32 [S] most drafts of the sequence that this step could verify, limits and memory considered.
        max_lens: int32 [S] most tokens of the text in all, prompt included.
        remap: int32 [S] place of the sequence in the previous plan, or -1; all -1 in an exact plan. Where it is >= 0,
            context_lens, positions and output_indices are upper bounds, token_ids are 0, lookback_ids -1, and the split
            of the drafts' rows (num_drafts) is provisional.
        num_draft_rows: rows for drafts in all; T = S + num_draft_rows in a decode plan, and no exact plan has more.
        rate_factors: float32 [G] what a predicted rate is worth, by position of the draft; for the split.
        make_drafts: whether the draft model is to run behind the step.
        output_indices: int32 [S] index of the token to be sampled.
        fork_seq_ids, cu_forks: int64 sequences that begin with this step, flat, with prefix sums int32 [S+1]. Each gets
            its first token from the same row as the sequence it is listed for.
        preempted_seq_ids: int64 sequences that lost their place when this step was planned.
        slot_copies, block_copies: int32 [n, 2] source and destination of cache units to copy before the forward pass.
    """

    @property
    def step_id(self) -> int: ...
    @property
    def samples(self) -> np.ndarray: ...
    @property
    def num_drafts(self) -> np.ndarray: ...
    @property
    def make_drafts(self) -> bool: ...
    @property
    def output_indices(self) -> np.ndarray: ...
    @property
    def fork_seq_ids(self) -> np.ndarray: ...
    @property
    def cu_forks(self) -> np.ndarray: ...
    @property
    def preempted_seq_ids(self) -> np.ndarray: ...
    @property
    def slot_copies(self) -> np.ndarray: ...
    @property
    def block_copies(self) -> np.ndarray: ...
