"""What the drafts of running sequences were drawn from, in static tensors on the device."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import torch

from deepinfer.core.decode_rows import DecodeRows
from deepinfer.sampling.proposed_draft import ProposedDraft
from deepinfer.sampling.step_rules import POOL_SLOT, SEQ_ID, StepRules

JUDGING_BYTES: Final = 2**27  # of rows' own distributions, in which they judge, that exist at once


class DraftPool:
    """`DraftMemory` of a GPU: a draft pass writes distributions where a later step's kernels judge by them, so that the
    host need not look at a draft in between.

    A slot says whose drafts it holds, which output index the first speaks about, and their ids; a draft of which that
    is not true is not judged by it, but is right when it equals a plain draw. So slots may be given away at any time.

    Args:
        capacity: sequences remembered at most, the newest ones; a step has no more.
        num_drafts: G drafts of a sequence.
        num_ids: tokens that may be drawn.
        device: of the model.
    """

    def __init__(self, capacity: int, num_drafts: int, num_ids: int, device: torch.device) -> None:
        self._capacity = capacity
        self._sizes = (num_drafts, num_ids)
        self._device = device
        self._slots: OrderedDict[int, int] = OrderedDict()
        self._free = list(range(capacity - 1, -1, -1))
        self._weights: torch.Tensor | None = None
        # One slot more takes what nobody wants: so no shape depends on who is drawn.
        self._owners = torch.full((capacity + 1,), -1, dtype=torch.int64, device=device)
        self._first_indices = torch.full_like(self._owners, -1)
        self._ids = torch.full((capacity + 1, num_drafts), -1, dtype=torch.int64, device=device)
        self._seen: np.ndarray | None = None

    @property
    def num_drafts(self) -> int:
        """G."""
        return self._sizes[0]

    @property
    def weights(self) -> torch.Tensor:
        """float32 [capacity * G, num_ids] unnormalised probabilities, whole numbers up to 2^40.

        Allocated when first asked for: engines whose requests are all greedy do without.
        """
        if self._weights is None:
            num_drafts, num_ids = self._sizes
            shape = (self._capacity * num_drafts, num_ids)
            self._weights = torch.zeros(shape, dtype=torch.float32, device=self._device)
        return self._weights

    def slots(self, seq_ids: Sequence[int]) -> list[int]:
        """A slot for each sequence, -1 for the first ones where there are more than `capacity`.

        Those that were not asked for longest give theirs away.
        """
        served = seq_ids[-self._capacity :]
        for seq_id in served:
            if seq_id in self._slots:
                self._slots.move_to_end(seq_id)
        for seq_id in served:
            if seq_id not in self._slots:
                slot = self._free.pop() if self._free else self._slots.popitem(last=False)[1]
                self._slots[seq_id] = slot
        return [-1] * (len(seq_ids) - len(served)) + [self._slots[seq_id] for seq_id in served]

    def drop(self, seq_ids: Iterable[int]) -> None:
        """Forget sequences; unknown ones are ignored."""
        for seq_id in seq_ids:
            slot = self._slots.pop(seq_id, None)
            if slot is not None:
                self._free.append(slot)

    def note_pass(self) -> None:
        """A draft pass has been launched: what the host has read of the slots is out of date."""
        self._seen = None

    def take(self, seq_id: int, first_index: int, token_ids: Sequence[int]) -> list[ProposedDraft | None]:
        """The distributions of the drafts `token_ids` at output indices first_index, ...; waits for the device.

        None for each of which nothing is known. Views: valid until the next draft pass.
        """
        slot = self._slots.get(seq_id)
        if slot is None or not len(token_ids):
            return [None] * len(token_ids)
        if self._seen is None:
            columns = (self._owners[:, None], self._first_indices[:, None], self._ids)
            self._seen = torch.cat(columns, dim=1).cpu().numpy()
        owner, index, *ids = self._seen[slot].tolist()
        if (owner, index) != (seq_id, first_index):
            return [None] * len(token_ids)
        rows = self.weights[slot * self.num_drafts :]
        pairs = zip(token_ids, ids, strict=False)
        return [ProposedDraft(mine, rows[k]) if mine == known else None for k, (mine, known) in enumerate(pairs)]

    def places(self, rows: DecodeRows, rules: StepRules) -> tuple[torch.Tensor, torch.Tensor]:
        """Row int64 [T] of `weights` by which each row's draft is to be judged, -1 for none, and that draft int64 [T].

        On the device alone. A row's draft is the token of the row behind it, if both are of one sequence.
        """
        # Not among the imports above: without a GPU no kernel is loaded.
        from tilelang_ops.sampling.place_drafts import DraftRows, KnownDrafts, place_drafts

        return place_drafts(
            DraftRows(rows.token_ids, rows.seqs, rows.first_rows, rows.num_rows),
            rules.values,
            KnownDrafts(self._owners, self._first_indices, self._ids),
            id_column=SEQ_ID,
            slot_column=POOL_SLOT,
        )

    def store(self, rules: StepRules, is_kept: torch.Tensor, first_indices: torch.Tensor, ids: torch.Tensor) -> None:
        """Note whose drafts the slots hold now. On the device alone.

        Args:
            rules: of S sequences.
            is_kept: bool [S] who got drafts in a slot.
            first_indices: int64 [S] output index of the first.
            ids: int64 [S, G] drafts; -1 for one without a distribution.
        """
        slots = torch.where(is_kept, rules.pool_slots, self._capacity)
        self._owners.index_copy_(0, slots, rules.seq_ids)
        self._first_indices.index_copy_(0, slots, first_indices)
        self._ids.index_copy_(0, slots, ids)
