"""One way to run a model, and how fast it decodes then."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class PlanPoint:
    """
    Attributes:
        width: GPUs that share the experts; each of them has its own sequences.
        num_seqs: sequences on each GPU.
        step_ms: of a step of all its parts.
        dense_ms, expert_ms, exchange_ms: its parts: attention and all else, experts, dispatch and combine. With two
            batches they overlap, and their sum is more than the step.
        host_ms: what the host adds, where ranks have measured that (`LockstepCosts`).
        two_batches: each half of the sequences computes while the other's tokens are on their way.
        tokens_per_s_per_user, tokens_per_s_per_gpu: what it comes to.
    """

    width: int
    num_seqs: int
    step_ms: float
    dense_ms: float
    expert_ms: float
    exchange_ms: float
    host_ms: float
    two_batches: bool
    tokens_per_s_per_user: float
    tokens_per_s_per_gpu: float

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return asdict(self)
