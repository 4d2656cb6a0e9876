"""A range that this process holds."""

from __future__ import annotations

from typing import NamedTuple

from deepinfer.batch.claim import Claim


class ClaimedRange(NamedTuple):
    """A range that this process holds.

    Attributes:
        number: of the range.
        claim: to be released.
    """

    number: int
    claim: Claim
