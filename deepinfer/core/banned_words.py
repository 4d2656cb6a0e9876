"""What a sampler needs to know of words that must not be produced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np


class BannedWords(Protocol):
    """Implemented in text/banned_words.py; the sampler itself never sees text."""

    def banned_after(self, generated: Sequence[int] | np.ndarray) -> Sequence[int]:
        """Ids that would complete a banned word behind the generated ids."""
        ...
