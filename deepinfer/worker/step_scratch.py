"""How much memory the largest step takes beside weights and caches: what every estimate begins with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from deepinfer.config.model_config import DeepSeekV41Config

_LIBRARY_BYTES = 8 << 20  # what torch, its math library and the kernels' threads take for themselves at the first step


@dataclass(frozen=True, slots=True)
class StepScratch(ABC):
    """Sizes of the largest step; each backend says what it holds throughout, and what comes one after the other.

    The results are estimates; doc/long_context.md says how far off they were.

    Attributes:
        config: the model.
        num_rows: most rows of a step.
        num_seqs: most sequences of a step.
        max_len: tokens of the longest sequence.
        num_drafts: drafts of a sequence, 0 with drafts off.
    """

    config: DeepSeekV41Config
    num_rows: int
    num_seqs: int
    max_len: int
    num_drafts: int = 0

    @property
    def num_bytes(self) -> int:
        """What the step holds throughout, and its hungriest part."""
        return _LIBRARY_BYTES + self._held() + max(self._parts())

    @property
    def num_logit_rows(self) -> int:
        """Rows whose logits exist at once."""
        return min(self.num_rows, self.num_seqs * (1 + self.num_drafts))

    @abstractmethod
    def _held(self) -> int:
        """Bytes that are there all the time."""

    @abstractmethod
    def _parts(self) -> tuple[int, ...]:
        """Bytes of the parts that follow each other."""
