"""What the output side remembers of one running completion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from deepinfer.core.engine_request import EngineRequest
from deepinfer.core.step_result import SampledToken
from deepinfer.outputs import DraftConfidence, RequestFailure
from deepinfer.outputs.completion_output import FinishReason
from deepinfer.text.detokenizer import Detokenizer
from deepinfer.text.stop_match import StopMatch
from deepinfer.text.stop_strings import StopStrings
from deepinfer.text.tokenizer import Tokenizer


@dataclass(slots=True)
class ChoiceState:
    """Tokens and text of one sequence. Changed by the output processor only.

    Attributes:
        request: the sequence.
        token_ids: generated ids.
        samples: generated tokens with their log-probabilities; stays empty unless these are wanted.
        pieces: text so far; stays empty unless the text is needed while running (streaming, stop strings).
        detokenizer, stops: present when the text is needed while running.
        grammar_complete: whether the newest token left a whole value of the grammar; None without one.
        hits_stop_id: whether the newest token ends a structured sequence as a stop id of the request.
        finish_reason, stop_reason, failure: how it ended; None while it runs.
        num_draft_tokens, num_accepted_tokens: drafts that were judged, and those that became tokens.
        pending_confidences: of the drafts that wait to be judged; stays empty unless confidences are wanted.
        confidences: of drafts that were judged.
        num_sent_tokens, num_sent_pieces: what deltas have given out already.
    """

    request: EngineRequest
    detokenizer: Detokenizer | None = None
    stops: StopStrings | None = None
    token_ids: list[int] = field(default_factory=list)
    samples: list[SampledToken] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    grammar_complete: bool | None = None
    hits_stop_id: bool = False
    finish_reason: FinishReason | None = None
    stop_reason: str | int | None = None
    failure: RequestFailure | None = None
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0
    pending_confidences: tuple[float, ...] = ()
    confidences: list[DraftConfidence] = field(default_factory=list)
    num_sent_tokens: int = 0
    num_sent_pieces: int = 0

    def follow_text(self, tokenizer: Tokenizer) -> None:
        """Decode while tokens arrive, looking for stop strings."""
        params = self.request.params
        self.detokenizer = Detokenizer(tokenizer, skip_special_tokens=params.skip_special_tokens)
        if params.stop:
            include = params.include_stop_str_in_output
            self.stops = StopStrings(params.stop, include=include, min_tokens=params.min_tokens)

    @property
    def match(self) -> StopMatch | None:
        """The stop string that ended the text, if one did."""
        return None if self.stops is None else self.stops.match

    def take_grammar(self, newest: SampledToken) -> None:
        """Note what the sampler says about the newest token and the request's grammar."""
        self.grammar_complete, self.hits_stop_id = newest.grammar_complete, newest.stops

    @property
    def has_whole_value(self) -> bool | None:
        """Whether the text is a whole value of the grammar, None without one. A stop string may have cut it."""
        if self.request.constraint is None:
            return None
        return bool(self.grammar_complete) and self.match is None

    def add_tokens(self, token_ids: Sequence[int], samples: Sequence[SampledToken]) -> None:
        """Append new tokens up to the one that completes a stop string; `samples` is empty when not wanted."""
        if self.detokenizer is None:
            self.token_ids.extend(token_ids)
            self.samples.extend(samples)
            return
        for place, token_id in enumerate(token_ids):
            self.token_ids.append(token_id)
            self.samples.extend(samples[place : place + 1])
            piece = self.detokenizer.push((token_id,))
            self.pieces.append(piece if self.stops is None else self.stops.push(piece, len(self.token_ids)))
            if self.match is not None:
                return

    def count_drafts(self, draft_ids: Sequence[int], num_kept: int) -> None:
        """Note the drafts that a step judged. Call it behind `add_tokens`, of whose tokens num_kept stayed."""
        first_index = len(self.token_ids) - num_kept
        self.num_draft_tokens += len(draft_ids)
        for place, (draft_id, token_id) in enumerate(zip(draft_ids, self.token_ids[first_index:], strict=False)):
            if place < len(self.pending_confidences):
                confidence, is_right = self.pending_confidences[place], draft_id == token_id
                self.confidences.append(DraftConfidence(first_index + place, place, confidence, is_right))
            if draft_id != token_id:
                return
            self.num_accepted_tokens += 1

    def finish_text(self) -> None:
        """Add what the detokenizer and the stop strings still hold back.

        A character that the text's end leaves unfinished shows as U+FFFD, which may complete a stop string like any
        other character.
        """
        if self.detokenizer is None or self.match is not None:
            return
        rest = self.detokenizer.finish()
        if self.stops is not None:
            rest = self.stops.push(rest, len(self.token_ids)) + self.stops.finish()
        self.pieces.append(rest)

    def text(self, tokenizer: Tokenizer) -> str:
        """The text so far; complete after `finish_text`."""
        if self.detokenizer is not None:
            return "".join(self.pieces)
        return tokenizer.decode(self.token_ids, self.request.params.skip_special_tokens)

    def take_unsent_text(self) -> str:
        """Text that no delta has given out yet."""
        text = "".join(self.pieces[self.num_sent_pieces :])
        self.num_sent_pieces = len(self.pieces)
        return text

    def take_unsent_tokens(self) -> slice:
        """Places of the tokens that no delta has given out yet."""
        unsent = slice(self.num_sent_tokens, len(self.token_ids))
        self.num_sent_tokens = len(self.token_ids)
        return unsent
