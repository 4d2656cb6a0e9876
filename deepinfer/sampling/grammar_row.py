"""The grammar of one sequence as the sampler uses it: masks before a draw, one step of the matcher behind it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from deepinfer.core.engine_request import EngineRequest
from deepinfer.core.grammar_matcher import GrammarMatcher
from deepinfer.errors import RequestError


class GrammarRow:
    """Wraps a matcher.

    The request's own stop ids are plain text inside a value: one ends the sequence where it leaves the value whole, and
    in the free text before a trigger.

    Attributes:
        stops: whether the newest token ends the sequence as one of the request's own stop ids.

    Args:
        matcher: at the sequence's start.
        request: the sequence.
        num_ids: ids that the tokenizer has.
        eos_token_ids: what the grammar takes for its end.
    """

    def __init__(
        self, matcher: GrammarMatcher, request: EngineRequest, num_ids: int, eos_token_ids: Sequence[int]
    ) -> None:
        self._matcher = matcher
        self._mask = np.zeros(-(-num_ids // 32), dtype=np.int32)
        self._num_ids = num_ids
        self._eos_ids = [token_id for token_id in eos_token_ids if token_id < num_ids]
        self._bans_eos = request.params.ignore_eos
        self._stop_ids = [i for i in request.params.stop_token_ids if i not in self._eos_ids]
        self._min_tokens = request.params.min_tokens
        self.stops = False

    @property
    def is_complete(self) -> bool:
        """Whether the output so far is a whole value of the grammar."""
        return self._matcher.is_complete

    def restrict(self, row: torch.Tensor, output_index: int, generated: Sequence[int] | np.ndarray) -> None:
        """Set forbidden tokens of float32 [V] logits to -inf.

        Args:
            row: changed in place.
            output_index: index of the token to be sampled; a step that is repeated takes tokens back first.
            generated: ids generated so far.
        """
        try:
            self._restrict(row, output_index, generated)
        except RequestError:
            raise
        except Exception as error:  # of the grammar library: one request's fault harms no other
            raise RequestError(f"the grammar matcher failed: {error}", code="grammar_error") from error

    def _restrict(self, row: torch.Tensor, output_index: int, generated: Sequence[int] | np.ndarray) -> None:
        self._follow(output_index, generated)
        if not self._matcher.is_constrained and output_index < self._min_tokens:
            row[self._stop_ids] = -torch.inf
        if not self._matcher.fill_mask(self._mask):
            return
        allowed = self._mask.view(np.uint8)
        if self._bans_eos:
            for token_id in self._eos_ids:
                allowed[token_id // 8] &= np.uint8(0xFF ^ (1 << token_id % 8))
        if row.is_cuda:
            # Not among the imports above: without a GPU no kernel is loaded.
            from tilelang_ops.sampling.mask_logits import mask_logits

            mask_logits(row[None], torch.from_numpy(self._mask).to(row.device)[None])
            return
        bits = np.unpackbits(allowed, bitorder="little")[: self._num_ids].astype(bool)
        row.masked_fill_(torch.from_numpy(~bits), -torch.inf)

    def accept(self, token_id: int, output_index: int) -> None:
        """Go on with the chosen token. Raises RequestError when the grammar does not allow it (a forced token)."""
        was_free = not self._matcher.is_constrained
        if not self._matcher.accept(token_id):
            message = f"token {token_id} at output index {output_index} is not allowed by the request's grammar"
            raise RequestError(message, code="grammar_violation")
        is_free = was_free and not self._matcher.is_constrained
        is_stop = token_id in self._stop_ids and output_index >= self._min_tokens
        self.stops = is_stop and (is_free or self._matcher.is_complete)

    def _follow(self, output_index: int, generated: Sequence[int] | np.ndarray) -> None:
        """Bring the matcher to the state before `output_index`: every token is fed exactly once."""
        surplus = self._matcher.num_accepted - output_index
        if surplus > 0:
            self._matcher.rollback(surplus)
        for place in range(self._matcher.num_accepted, output_index):
            self.accept(int(generated[place]), place)
