"""From logits to one token per sequence: the order of operations of sampling, top to bottom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch

from deepinfer.core.engine_request import EngineRequest
from deepinfer.core.sequence_end import SequenceEnd
from deepinfer.core.step_result import SampledToken
from deepinfer.errors import RequestError
from deepinfer.sampling.fixed_point import draw
from deepinfer.sampling.proposed_draft import ProposedDraft
from deepinfer.sampling.purpose import Purpose
from deepinfer.sampling.rejection import judge_drafts
from deepinfer.sampling.rng import random_uint64
from deepinfer.sampling.row_state import RowState
from deepinfer.sampling.sampled_logprobs import sampled_logprobs
from deepinfer.sampling.transform import transform

_BLOCK_VALUES: Final = 2**22  # logits worked on at once


@dataclass(frozen=True, slots=True)
class _Row:
    """A row to be sampled: its sequence, the output index, and a draft to be judged."""

    state: RowState
    output_index: int
    draft: ProposedDraft | None = None


class Sampler:
    """Samples one token per row; a row's result depends on that row and its request only, bit for bit.

    Order: bans and masks (the grammar's too), bias, penalties, the request's own processors,
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

    @property
    def num_valid_ids(self) -> int:
        """Ids the tokenizer has."""
        return self._num_valid_ids

    def state_of(self, seq_id: int) -> RowState:
        """What is kept of a registered sequence."""
        return self._states[seq_id]

    def remove(self, seq_id: int) -> None:
        """Forget a sequence; unknown ones are ignored."""
        self._states.pop(seq_id, None)

    def sample(
        self,
        logits: torch.Tensor,
        seq_ids: Sequence[int] | np.ndarray,
        output_indices: Sequence[int] | np.ndarray,
        generated_token_ids: Sequence[Sequence[int] | np.ndarray] | None = None,
        drafts: Sequence[ProposedDraft | None] | None = None,
    ) -> list[SampledToken | Exception]:
        """Sample one token per row.

        Args:
            logits: float32 [S, V], left unchanged.
            seq_ids: [S] registered sequences.
            output_indices: [S] index of the token to be sampled among its sequence's output.
            generated_token_ids: [S] ids generated so far per row; None when no row needs them.
            drafts: [S] what `propose` drew for this output index, to be judged by rejection sampling where the row is
                drawn at all: the token is then the draft or one from the residual, with the same distribution as a
                plain draw. None: plain draws.

        Returns:
            [S] in row order. A row that cannot be sampled holds a RequestError instead (never raised, so that the
            other rows are not harmed): code "non_finite_logits" (NaN, +inf or all -inf from the model),
            "no_candidate_token" (bans and masks left nothing), "grammar_violation" (a forced token) or
            "logits_processor_error". A row whose grammar is complete while nothing may follow holds a SequenceEnd.
        """
        states = [self._states[seq_id] for seq_id in seq_ids]
        history = generated_token_ids if generated_token_ids is not None else [()] * len(states)
        judged = drafts if drafts is not None else [None] * len(states)
        step = max(1, _BLOCK_VALUES // max(1, logits.shape[1]))
        results: list[SampledToken | Exception] = []
        for begin in range(0, len(states), step):
            block = slice(begin, begin + step)
            rows = [
                _Row(state, int(index), draft)
                for state, index, draft in zip(states[block], output_indices[block], judged[block], strict=True)
            ]
            results += self._sample_block(logits[block], rows, history[block])
        return results

    def draft(self, logits: torch.Tensor, seq_ids: Sequence[int], output_indices: Sequence[int]) -> list[int]:
        """Guess one token per row from a draft model's logits float32 [S, V]: no bans, masks or penalties, but each
        sequence's temperature and filters, and the key with which `sample` will draw at that output index.
        """
        usable, states, tokens, drawing = self._draft_rows(logits, seq_ids)
        if drawing:
            rows = [_Row(states[row], output_indices[row]) for row in drawing]
            weights = transform(usable[drawing], [row.state.params for row in rows]).weights
            for row, token in zip(drawing, draw(weights, _words(rows, Purpose.SAMPLE)).tolist(), strict=True):
                tokens[row] = token
        return tokens

    def propose(
        self, logits: torch.Tensor, seq_ids: Sequence[int], output_indices: Sequence[int], place: int
    ) -> list[ProposedDraft]:
        """Like `draft`, but drawn with a key of its own, and with the distribution that `sample` needs to judge it.

        Args:
            place: of the draft in its block. A later block's draft for the same output index needs another word: the
                number of verified drafts may have depended on this one.
        """
        usable, states, tokens, drawing = self._draft_rows(logits, seq_ids)
        proposed = [ProposedDraft(token) for token in tokens]
        if drawing:
            rows = [_Row(states[row], output_indices[row]) for row in drawing]
            # In float32 before the draw: what is kept is then exactly what was drawn from.
            weights = transform(usable[drawing], [row.state.params for row in rows]).weights.to(torch.float32)
            drawn = draw(weights.to(torch.int64), _words(rows, Purpose.DRAFT, place)).tolist()
            for item, row in enumerate(drawing):
                proposed[row] = ProposedDraft(drawn[item], weights[item].clone())  # a view would keep all rows alive
        return proposed

    def _draft_rows(
        self, logits: torch.Tensor, seq_ids: Sequence[int]
    ) -> tuple[torch.Tensor, list[RowState], list[int], list[int]]:
        """Logits of the tokenizer's ids, sequences, argmax of each row, and the rows that are to be drawn."""
        usable = logits[:, : self._num_valid_ids]
        states = [self._states[seq_id] for seq_id in seq_ids]
        finite = torch.isfinite(usable.amax(dim=-1)).tolist()
        drawing = [row for row, state in enumerate(states) if finite[row] and not state.takes_argmax]
        return usable, states, usable.argmax(dim=-1).tolist(), drawing

    def _sample_block(
        self, logits: torch.Tensor, rows: list[_Row], history: Sequence[Sequence[int] | np.ndarray]
    ) -> list[SampledToken | Exception]:
        errors = _non_finite_rows(logits)
        adjusted = self._adjusted(logits, rows, history, errors)
        best_values, best = adjusted.max(dim=-1)
        for place, value in enumerate(best_values.tolist()):
            if place not in errors and not abs(value) < float("inf"):
                errors[place] = _nothing_left(rows[place])
        tokens = best.tolist()
        drawing = [place for place, row in enumerate(rows) if place not in errors and not row.state.takes_argmax]
        if drawing:
            drawn = _draw_rows(adjusted[drawing], [rows[place] for place in drawing])
            for place, token in zip(drawing, drawn, strict=True):
                tokens[place] = token
        for place, row in enumerate(rows):
            forced = row.state.forced_token(row.output_index)
            tokens[place] = tokens[place] if forced is None else forced
        _follow_grammars(rows, tokens, errors)
        params = [None if place in errors else row.state.params for place, row in enumerate(rows)]
        scores = sampled_logprobs(logits, adjusted, tokens, params)
        sampled = [scores.get(place) or SampledToken(token) for place, token in enumerate(tokens)]
        return [errors.get(place) or _with_grammar(sampled[place], row.state) for place, row in enumerate(rows)]

    def _adjusted(
        self,
        logits: torch.Tensor,
        rows: list[_Row],
        history: Sequence[Sequence[int] | np.ndarray],
        errors: dict[int, Exception],
    ) -> torch.Tensor:
        """Logits of the tokenizer's ids after bans, bias and penalties; the input itself when nothing changes it.

        What goes wrong with a row is added to `errors`.
        """
        usable = logits[:, : self._num_valid_ids]
        changed = [place for place, row in enumerate(rows) if row.state.adjusts(row.output_index)]
        if not changed:
            return usable
        adjusted = usable.clone()
        for place in changed:
            try:
                rows[place].state.adjust(adjusted[place], rows[place].output_index, history[place])
            except RequestError as error:
                errors.setdefault(place, error)
        return adjusted


def non_finite_logits() -> RequestError:
    """What is wrong with a row that cannot be sampled whatever is asked of it."""
    message = "the model gave non-finite logits (NaN or +inf, or -inf everywhere); the request cannot go on"
    return RequestError(message, code="non_finite_logits")


def _non_finite_rows(logits: torch.Tensor) -> dict[int, Exception]:
    """An error per row that has NaN or +inf, or nothing but -inf; amax carries NaN and +inf through."""
    finite = torch.isfinite(logits.amax(dim=-1)).tolist()
    return {row: non_finite_logits() for row, is_finite in enumerate(finite) if not is_finite}


def _nothing_left(row: _Row) -> Exception:
    """A whole value of a grammar may simply end; anything else is a contradiction in the request."""
    if row.state.grammar is not None and row.state.grammar.is_complete:
        return SequenceEnd()
    message = f"no token is left to choose from at output index {row.output_index}; relax the bans"
    return RequestError(message, code="no_candidate_token")


def _follow_grammars(rows: list[_Row], tokens: Sequence[int], errors: dict[int, Exception]) -> None:
    """Feed every chosen token to its grammar, once."""
    for place, row in enumerate(rows):
        if row.state.grammar is not None and place not in errors:
            try:
                row.state.grammar.accept(tokens[place], row.output_index)
            except RequestError as error:
                errors[place] = error


def _with_grammar(token: SampledToken, state: RowState) -> SampledToken:
    grammar = state.grammar
    return token if grammar is None else replace(token, grammar_complete=grammar.is_complete, stops=grammar.stops)


def _draw_rows(adjusted: torch.Tensor, rows: list[_Row]) -> list[int]:
    """Transform and draw: adjusted logits float32 [n, V] -> n token ids. Rows with a draft judge it instead."""
    weights = transform(adjusted, [row.state.params for row in rows]).weights
    tokens: list[int] = draw(weights, _words(rows, Purpose.SAMPLE)).tolist()
    judging = [place for place, row in enumerate(rows) if row.draft is not None and row.draft.weights is not None]
    if judging:
        judged = [rows[place] for place in judging]
        drafts = [row.draft for row in judged if row.draft is not None]
        results = judge_drafts(
            weights[judging],
            torch.stack([draft.weights for draft in drafts if draft.weights is not None]),
            torch.tensor([draft.token_id for draft in drafts], device=weights.device),
            _words(judged, Purpose.ACCEPT),
            _words(judged, Purpose.RESIDUAL),
        ).tolist()
        for place, token in zip(judging, results, strict=True):
            tokens[place] = token
    return tokens


def _words(rows: list[_Row], purpose: Purpose, lane: int = 0) -> np.ndarray:
    """One random word uint64 per row."""
    seeds, hashes = [row.state.seed for row in rows], [row.state.prompt_hash for row in rows]
    return random_uint64(seeds, hashes, [row.output_index for row in rows], purpose, lane)
