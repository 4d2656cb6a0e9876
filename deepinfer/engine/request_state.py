"""What the output side remembers of one unfinished request: its prompt, its times and its choices."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from deepinfer.core.engine_request import EngineRequest
from deepinfer.engine.choice_state import ChoiceState
from deepinfer.engine.prompt_scores import PromptScores
from deepinfer.profile.request_life import RequestLife


@dataclass(slots=True)
class RequestState:
    """One prompt with its n completions. Made by `start`, changed by the output processor only.

    Attributes:
        request: choice 0.
        prompt: its text, None when ids were given.
        prompt_index: place in the call.
        streaming: whether every step makes a delta.
        arrival_time: seconds of the monotonic clock.
        choices: every completion, by index.
        scores: prompt log-probabilities, when wanted.
        num_cached_tokens: prompt tokens that were not computed, thanks to a saved prefix.
        num_leading_ended: choices before the first one that may still run.
    """

    request: EngineRequest
    prompt: str | None
    prompt_index: int
    streaming: bool
    arrival_time: float
    choices: tuple[ChoiceState, ...]
    scores: PromptScores | None = None
    first_scheduled_time: float | None = None
    first_token_time: float | None = None
    num_preemptions: int = 0
    num_cached_tokens: int = 0
    num_leading_ended: int = 0

    @classmethod
    def start(
        cls, request: EngineRequest, prompt: str | None, prompt_index: int, streaming: bool, arrival_time: float
    ) -> RequestState:
        """State of a new request; call `ChoiceState.follow_text` when its text is needed while it runs."""
        choices = tuple(ChoiceState(choice) for choice in request.choices)
        state = cls(request, prompt, prompt_index, streaming, arrival_time, choices)
        if request.score_start is not None:
            state.scores = PromptScores(request.score_start, len(request.prompt_token_ids))
        return state

    def running_choices(self) -> list[ChoiceState]:
        """Choices that have not ended, by index."""
        return [choice for choice in self.choices if choice.finish_reason is None]

    def is_open(self, open_seq_ids: Container[int]) -> bool:
        """Whether the sequence of a choice is among those. One that is not never comes back, so that asking behind the
        end of every choice takes time in proportion to their number, not to its square.
        """
        while self.num_leading_ended < len(self.choices):
            if self.choices[self.num_leading_ended].request.seq_id in open_seq_ids:
                return True
            self.num_leading_ended += 1
        return False

    def life(self) -> RequestLife:
        """Its times until now."""
        details = {"num_tokens": sum(len(choice.token_ids) for choice in self.choices)}
        times = (self.arrival_time, self.first_scheduled_time, self.first_token_time)
        return RequestLife(self.request.request_id, *times, None, details)

    def hit_by_error(self, seq_id: int) -> list[ChoiceState]:
        """The choices that an error of one sequence ends: all of them as long as they share one prefill."""
        running = self.running_choices()
        if seq_id == self.request.seq_id and self.first_token_time is None:
            return running
        return [choice for choice in running if choice.request.seq_id == seq_id]
