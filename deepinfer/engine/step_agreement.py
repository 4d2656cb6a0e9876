"""How ranks whose steps meet in collectives agree on the next step: two votes, and a rule that needs no more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

AgreedKind = Literal["prefill", "decode"]


class StepVote(NamedTuple):
    """What one rank says before a step.

    Attributes:
        can_prefill, can_decode: 1 if it could fill a step of that kind, else 0.
        has_work: 1 if any of its requests is unfinished, else 0.
        wakes: how often the front end has woken it.
        num_in_flight: its steps that are not booked yet.
    """

    can_prefill: int
    can_decode: int
    has_work: int
    wakes: int
    num_in_flight: int = 0


@dataclass(slots=True)
class StepAgreement:
    """Every rank keeps one and feeds it with the same votes, so all decide alike (spec/engine.md 2.5).

    Prefill when anybody could and nobody decodes; when all who have something to do could, asked every `all_interval`
    decode steps; when anybody could, every `any_interval`. Else decode. The second vote, `confirm`, tells whether
    anybody has really planned something: where all plans are empty, a prefill gives way to a decode step.

    Attributes:
        all_interval, any_interval: decode steps, see above.
        num_decodes: decode steps since the last prefill step.
    """

    all_interval: int
    any_interval: int
    num_decodes: int = 0

    def decide(self, votes: Sequence[StepVote]) -> AgreedKind | None:
        """The kind of the next step; None when nobody can do anything."""
        if not any(vote.can_prefill for vote in votes):
            return "decode" if any(vote.can_decode for vote in votes) else None
        if not any(vote.can_decode for vote in votes):
            return "prefill"
        busy = [vote.can_prefill for vote in votes if vote.can_prefill or vote.can_decode]
        is_any_point = self.num_decodes > 0 and self.num_decodes % self.any_interval == 0
        is_all_point = self.num_decodes % self.all_interval == 0
        return "prefill" if is_any_point or (is_all_point and all(busy)) else "decode"

    def confirm(self, kind: AgreedKind, num_planned: int) -> AgreedKind | None:
        """What is run, given how many ranks have planned something of the kind: `kind`; "decode" in place of a prefill
        of nobody, to be planned and confirmed anew; None for a decode step of nobody.
        """
        if num_planned:
            self.num_decodes = 0 if kind == "prefill" else self.num_decodes + 1
            return kind
        return "decode" if kind == "prefill" else None

    @staticmethod
    def may_sleep(votes: Sequence[StepVote]) -> bool:
        """Whether all may wait to be woken: nobody has work, and nobody has heard of some that others have not."""
        return not any(vote.has_work for vote in votes) and len({vote.wakes for vote in votes}) == 1
