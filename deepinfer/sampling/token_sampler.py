"""What a step asks of the sampler of its backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from deepinfer.core.engine_request import EngineRequest
from deepinfer.core.step_result import SampledToken
from deepinfer.sampling.proposed_draft import ProposedDraft


class TokenSampler(Protocol):
    """See `Sampler`, which says what each method does. Logits are what the backend's executor gives."""

    def add(self, request: EngineRequest) -> None: ...

    def remove(self, seq_id: int) -> None: ...

    def sample(
        self,
        logits: Any,
        seq_ids: list[int],
        output_indices: list[int],
        generated_token_ids: Sequence[Sequence[int] | np.ndarray],
        drafts: Sequence[ProposedDraft | None] | None = None,
    ) -> list[SampledToken | Exception]: ...

    def propose(
        self, logits: Any, seq_ids: Sequence[int], output_indices: Sequence[int], place: int
    ) -> list[ProposedDraft]: ...
