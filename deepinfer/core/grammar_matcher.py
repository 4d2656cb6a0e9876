"""What the sampler asks of a grammar library: which tokens may come next, and how to go on or back."""

from __future__ import annotations

from typing import Protocol

import numpy as np


class GrammarMatcher(Protocol):
    """Follows one sequence. Implemented by `grammar.matcher.TriggeredMatcher` over any grammar library.

    Attributes:
        num_accepted: tokens accepted and not rolled back.
        is_constrained: whether the next token is restricted at all (False before a trigger is complete).
        is_complete: whether the text so far is a whole value of the grammar.
        is_terminated: whether a stop token was accepted behind a whole value.
    """

    @property
    def num_accepted(self) -> int: ...
    @property
    def is_constrained(self) -> bool: ...
    @property
    def is_complete(self) -> bool: ...
    @property
    def is_terminated(self) -> bool: ...

    def fill_mask(self, mask: np.ndarray) -> bool:
        """Write the allowed tokens: int32 [ceil(vocabulary / 32)], bit v & 31 of word v >> 5.

        Returns False, and leaves the mask alone, when every token is allowed.
        """
        ...

    def accept(self, token_id: int) -> bool:
        """Go on with a token; False, without any change, when it is not allowed."""
        ...

    def rollback(self, num_tokens: int) -> None:
        """Take the newest accepted tokens back; any number up to `num_accepted`."""
        ...
