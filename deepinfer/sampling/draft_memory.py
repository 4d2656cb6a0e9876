"""The distributions of the drafts that wait to be judged, by sequence."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from deepinfer.sampling.proposed_draft import ProposedDraft


class DraftMemory:
    """Each live sequence's newest drafts, to be taken once.

    Without an entry a draft can still be judged without loss: the token is then a plain draw, and the draft right when
    it equals it. So an entry may be dropped at any time, and nothing depends on it but the share of accepted drafts.

    Args:
        capacity: sequences remembered at most, the newest ones. A fork without a place yet has drafts that nobody is
            going to ask for; this bounds them.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._sets: OrderedDict[int, tuple[int, tuple[ProposedDraft, ...]]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sets)

    def put(self, seq_id: int, first_index: int, drafts: Sequence[ProposedDraft]) -> None:
        """Remember the drafts of a sequence instead of those it had; the first speaks about output first_index."""
        self._sets.pop(seq_id, None)
        self._sets[seq_id] = (first_index, tuple(drafts))
        if len(self._sets) > self._capacity:
            self._sets.popitem(last=False)

    def take(self, seq_id: int, first_index: int, token_ids: Sequence[int]) -> list[ProposedDraft | None]:
        """The distributions of the drafts `token_ids` at output indices first_index, ...; they are forgotten.

        token_ids is a prefix of what was put in for this index. None for each where nothing is known about it, as after
        a step that was computed, given up by an exception from outside and is repeated.
        """
        known_index, drafts = self._sets.pop(seq_id, (-1, ()))
        if known_index != first_index:
            return [None] * len(token_ids)
        known_ids = [draft.token_id for draft in drafts[: len(token_ids)]]
        assert known_ids == list(token_ids), f"sequence {seq_id}: drafts {known_ids} came back as {list(token_ids)}"
        return list(drafts[: len(token_ids)])

    def drop(self, seq_ids: Iterable[int]) -> None:
        """Forget sequences; unknown ones are ignored."""
        for seq_id in seq_ids:
            self._sets.pop(seq_id, None)
