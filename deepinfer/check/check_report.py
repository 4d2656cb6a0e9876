"""What a check found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from deepinfer.check.op_fault import OpFault


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Of one run of `check_rows`.

    Attributes:
        backend, numerics: what was judged.
        num_rows, num_tokens: replayed; prompt and generated tokens.
        ops: by op, how many calls, and the worst that was seen.
        faults: of each op the first call outside its tolerance, in the order in which they came.
        largest_difference: between log-probabilities of the rows' tokens from whole steps, as they run in production,
            and from the checked ops, in nats.
        must_be_equal: whether whole steps have to give the same bits (`batch_invariant`).
        errors: of rows that the engine refused.
    """

    backend: str
    numerics: str
    num_rows: int
    num_tokens: int
    ops: tuple[OpSeen, ...]
    faults: tuple[OpFault, ...]
    largest_difference: float
    must_be_equal: bool
    errors: tuple[str, ...]

    @property
    def is_fine(self) -> bool:
        """Whether every op is inside its tolerance, whole steps do as the ops, and every row ran."""
        return not (self.faults or self.errors or (self.must_be_equal and self.largest_difference > 0))

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return {**asdict(self), "is_fine": self.is_fine}


@dataclass(frozen=True, slots=True)
class OpSeen:
    """One op in a check.

    Attributes:
        op: name in the op contract.
        calls: how many.
        worst: largest relative error of float results.
        differing, count: integers that differ, and all.
    """

    op: str
    calls: int
    worst: float
    differing: int
    count: int
