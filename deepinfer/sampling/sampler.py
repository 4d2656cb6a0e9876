"""From logits to one token per sequence: the order of operations of sampling, top to bottom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import torch

from deepinfer.core.engine_request import EngineRequest
from deepinfer.core.sequence_end import SequenceEnd
from deepinfer.core.step_result import SampledToken
from deepinfer.errors import RequestError
from deepinfer.sampling.fixed_point import draw
from deepinfer.sampling.purpose import Purpose
from deepinfer.sampling.rng import random_uint64
from deepinfer.sampling.row_state import RowState
from deepinfer.sampling.sampled_logprobs import sampled_logprobs
from deepinfer.sampling.transform import transform

_BLOCK_VALUES: Final = 2**22  # logits worked on at once


class Sampler:
    """Samples one token per row; a row's result depends on that row and its request only, bit for bit.

    Order (decisions 21): bans and masks (the grammar's too), bias, penalties, the request's own processors,
    temperature, min_p, top-p and top-k, renormalise, draw, forced tokens. Greedy rows (temperature < 1e-5, or
    top_k = 1) take the argmax of the adjusted logits, lowest id on ties. Ids the tokenizer does not have are never
    produced or listed. Log-probabilities are raw (log-softmax of the model's logits over its whole vocabulary) or
    processed (of the distribution drawn from; greedy: of the adjusted logits at temperature 1).

    Args:
        num_valid_ids: ids the tokenizer has; higher ids are padding of the model's vocabulary.
        eos_token_ids: what `first_n_token_no_eos` bans.
    """

    def __init__(self, num_valid_ids: int, eos_token_ids: Sequence[int] = ()) -> None:
        self._num_valid_ids = num_valid_ids
        self._eos_token_ids = tuple(eos_token_ids)
        self._states: dict[int, RowState] = {}

    def add(self, request: EngineRequest) -> None:
        """Register a sequence. Raises RequestError when its parameters name an id the tokenizer does not have."""
        request.params.check_token_ids(self._num_valid_ids)
        self._states[request.seq_id] = RowState(request, self._num_valid_ids, self._eos_token_ids)

    def remove(self, seq_id: int) -> None:
        """Forget a sequence; unknown ones are ignored."""
        self._states.pop(seq_id, None)

    def sample(
        self,
        logits: torch.Tensor,
        seq_ids: Sequence[int] | np.ndarray,
        output_indices: Sequence[int] | np.ndarray,
        generated_token_ids: Sequence[Sequence[int] | np.ndarray] | None = None,
    ) -> list[SampledToken | Exception]:
        """Sample one token per row.

        Args:
            logits: float32 [S, V], left unchanged.
            seq_ids: [S] registered sequences.
            output_indices: [S] index of the token to be sampled among its sequence's output.
            generated_token_ids: [S] ids generated so far per row; None when no row needs them.

        Returns:
            [S] in row order. A row that cannot be sampled holds a RequestError instead (never raised, so that the
            other rows are not harmed): code "non_finite_logits" (NaN, +inf or all -inf from the model),
            "no_candidate_token" (bans and masks left nothing), "grammar_violation" (a forced token) or
            "logits_processor_error". A row whose grammar is complete while nothing may follow holds a SequenceEnd.
        """
        states = [self._states[seq_id] for seq_id in seq_ids]
        history = generated_token_ids if generated_token_ids is not None else [()] * len(states)
        step = max(1, _BLOCK_VALUES // max(1, logits.shape[1]))
        results: list[SampledToken | Exception] = []
        for begin in range(0, len(states), step):
            block = slice(begin, begin + step)
            results += self._sample_block(logits[block], states[block], output_indices[block], history[block])
        return results

    def draft(self, logits: torch.Tensor, seq_ids: Sequence[int], output_indices: Sequence[int]) -> list[int]:
        """Guess one token per row from a draft model's logits float32 [S, V]: no bans, masks or penalties, but each
        sequence's temperature and filters, and the key with which `sample` will draw at that output index.
        """
        usable = logits[:, : self._num_valid_ids]
        states = [self._states[seq_id] for seq_id in seq_ids]
        tokens: list[int] = usable.argmax(dim=-1).tolist()
        finite = torch.isfinite(usable.amax(dim=-1)).tolist()
        drawing = [row for row, state in enumerate(states) if finite[row] and not state.takes_argmax]
        if drawing:
            rows = [(states[row], output_indices[row]) for row in drawing]
            for row, token in zip(drawing, _draw_rows(usable[drawing], rows), strict=True):
                tokens[row] = token
        return tokens

    def _sample_block(
        self,
        logits: torch.Tensor,
        states: Sequence[RowState],
        output_indices: Sequence[int] | np.ndarray,
        history: Sequence[Sequence[int] | np.ndarray],
    ) -> list[SampledToken | Exception]:
        errors = _non_finite_rows(logits)
        adjusted = self._adjusted(logits, states, output_indices, history, errors)
        best_values, best = adjusted.max(dim=-1)
        for row, value in enumerate(best_values.tolist()):
            if row not in errors and not abs(value) < float("inf"):
                errors[row] = _nothing_left(states[row], int(output_indices[row]))
        tokens = best.tolist()
        drawing = [row for row, state in enumerate(states) if row not in errors and not state.takes_argmax]
        if drawing:
            rows = [(states[row], output_indices[row]) for row in drawing]
            for row, token in zip(drawing, _draw_rows(adjusted[drawing], rows), strict=True):
                tokens[row] = token
        for row, state in enumerate(states):
            forced = state.forced_token(output_indices[row])
            tokens[row] = tokens[row] if forced is None else forced
        _follow_grammars(states, tokens, output_indices, errors)
        scores = sampled_logprobs(
            logits, adjusted, tokens, [None if r in errors else s.params for r, s in enumerate(states)]
        )
        sampled = [scores.get(row) or SampledToken(token) for row, token in enumerate(tokens)]
        return [errors.get(row) or _with_grammar(sampled[row], state) for row, state in enumerate(states)]

    def _adjusted(
        self,
        logits: torch.Tensor,
        states: Sequence[RowState],
        output_indices: Sequence[int] | np.ndarray,
        history: Sequence[Sequence[int] | np.ndarray],
        errors: dict[int, Exception],
    ) -> torch.Tensor:
        """Logits of the tokenizer's ids after bans, bias and penalties; the input itself when nothing changes it.

        What goes wrong with a row is added to `errors`.
        """
        usable = logits[:, : self._num_valid_ids]
        rows = [row for row, state in enumerate(states) if state.adjusts(output_indices[row])]
        if not rows:
            return usable
        adjusted = usable.clone()
        for row in rows:
            try:
                states[row].adjust(adjusted[row], output_indices[row], history[row])
            except RequestError as error:
                errors.setdefault(row, error)
        return adjusted


def _non_finite_rows(logits: torch.Tensor) -> dict[int, Exception]:
    """An error per row that has NaN or +inf, or nothing but -inf; amax carries NaN and +inf through."""
    message = "the model gave non-finite logits (NaN or +inf, or -inf everywhere); the request cannot go on"
    finite = torch.isfinite(logits.amax(dim=-1)).tolist()
    return {
        row: RequestError(message, code="non_finite_logits") for row, is_finite in enumerate(finite) if not is_finite
    }


def _nothing_left(state: RowState, output_index: int) -> Exception:
    """A whole value of a grammar may simply end; anything else is a contradiction in the request."""
    if state.grammar is not None and state.grammar.is_complete:
        return SequenceEnd()
    message = f"no token is left to choose from at output index {output_index}; relax the bans"
    return RequestError(message, code="no_candidate_token")


def _follow_grammars(
    states: Sequence[RowState],
    tokens: Sequence[int],
    output_indices: Sequence[int] | np.ndarray,
    errors: dict[int, Exception],
) -> None:
    """Feed every chosen token to its grammar, once."""
    for row, state in enumerate(states):
        if state.grammar is not None and row not in errors:
            try:
                state.grammar.accept(tokens[row], int(output_indices[row]))
            except RequestError as error:
                errors[row] = error


def _with_grammar(token: SampledToken, state: RowState) -> SampledToken:
    grammar = state.grammar
    return token if grammar is None else replace(token, grammar_complete=grammar.is_complete, stops=grammar.stops)


def _draw_rows(adjusted: torch.Tensor, rows: Sequence[tuple[RowState, int]]) -> list[int]:
    """Transform and draw: adjusted logits float32 [n, V] and (state, output index) per row -> n token ids."""
    words = random_uint64(
        [state.seed for state, _ in rows],
        [state.prompt_hash for state, _ in rows],
        [output_index for _, output_index in rows],
        Purpose.SAMPLE,
    )
    drawn: list[int] = draw(transform(adjusted, [state.params for state, _ in rows]).weights, words).tolist()
    return drawn
