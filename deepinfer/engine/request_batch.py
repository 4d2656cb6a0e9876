"""The requests of one call: prepared one by one, submitted together, collected as they end."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from deepinfer.core.engine_request import EngineRequest
from deepinfer.engine.encoded_prompt import EncodedPrompt
from deepinfer.engine.input_processor import InputProcessor
from deepinfer.engine.mailbox import Mailbox
from deepinfer.engine.own_error import own_error
from deepinfer.engine.progress import Progress
from deepinfer.engine.prompt_encoder import PromptEncoder, prompt_text
from deepinfer.engine.request_loop import RequestLoop
from deepinfer.errors import DeepInferError, RequestError
from deepinfer.outputs import RequestDelta, RequestFailure, RequestOutput
from deepinfer.sampling_params import SamplingParams


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A request that is ready to run, or the reason why it is not."""

    request_id: str
    text: str | None
    request: EngineRequest | None
    error: DeepInferError | None


class RequestBatch:
    """Lives for one call. A wrong request ends with its own error; leaving an iterator early aborts the rest."""

    def __init__(self, loop: RequestLoop, inputs: InputProcessor, encoder: PromptEncoder, mailbox: Mailbox) -> None:
        self._loop = loop
        self._inputs = inputs
        self._encoder = encoder
        self._mailbox = mailbox
        self._prepared: list[_Prepared] = []

    def add_generation(self, request_id: str, prompt: Any, params: SamplingParams | DeepInferError) -> None:
        """Prepare a request that generates. An error in place of its parameters becomes its own error."""
        number, text = self._inputs.next_number(), prompt_text(prompt)
        try:
            if isinstance(params, DeepInferError):
                raise params
            request = self._generation(request_id, number, self._encoder.encode(prompt), params)
            self._prepared.append(_Prepared(request_id, text, request, None))
        except DeepInferError as error:
            self._prepared.append(_Prepared(request_id, text, None, error))

    def _generation(self, request_id: str, number: int, prompt: EncodedPrompt, params: SamplingParams) -> EngineRequest:
        try:
            prefix_id = self._loop.prefix_id_of(prompt.prefix)
            request = self._inputs.generation(request_id, number, prompt, params)
            return request if prefix_id is None else request.on_prefix(prefix_id)
        except DeepInferError:
            raise
        except Exception as error:
            raise own_error(error, "the request cannot be prepared", "invalid_request") from error

    def add_scoring(self, request_id: str, context: Any, continuation: Any) -> None:
        """Prepare a request that judges a continuation. Raises what is wrong with it."""
        encoded, start = self._encoder.encode_pair(context, continuation)
        self._inputs.next_number()
        request = self._inputs.scoring(request_id, encoded, start)
        self._prepared.append(_Prepared(request_id, encoded.text, request, None))

    def raise_first_error(self) -> None:
        """For strict calls: raise the first request's error, with its place, before any work."""
        for index, item in enumerate(self._prepared):
            error = item.error if item.request is None else self._loop.grammar_error(item.request)
            if error is not None:
                message = f"prompt {index}: {error}"
                if isinstance(error, RequestError):
                    raise RequestError(message, code=error.code) from error
                raise type(error)(message) from error

    def in_order(self, num_prompts: int, use_tqdm: bool | Callable[..., Any]) -> list[RequestOutput]:
        """All outputs, in the order of the prompts.

        Args:
            num_prompts: of the call.
            use_tqdm: a progress bar, or a callable that makes one.
        """
        outputs: dict[int, RequestOutput] = {}
        with Progress(use_tqdm, num_prompts, "Processed prompts") as progress, closing(self.finished()) as ended:
            for place, output in ended:
                outputs[place] = output
                progress.advance()
        return [outputs[place] for place in range(num_prompts)]

    def finished(self) -> Generator[tuple[int, RequestOutput], None, None]:
        """Submit everything and yield (place in the call, output) as requests end."""
        places = {item.request_id: index for index, item in enumerate(self._prepared)}
        try:
            self.submit()
            for _ in range(len(self._prepared)):
                while not self._mailbox.finished:
                    self._loop.advance(self._mailbox)
                output = self._mailbox.finished.popleft()
                yield places[output.request_id], output
        finally:
            self._loop.discard(places, self._mailbox)

    def deltas(self) -> Generator[RequestDelta, None, None]:
        """Submit everything and yield what each step adds, until every request has ended."""
        num_running, mailbox = len(self._prepared), self._mailbox
        try:
            self.submit()
            while num_running or mailbox.deltas:
                while mailbox.finished:  # looked at first: what ends a request comes behind its last delta
                    mailbox.finished.popleft()
                    num_running -= 1
                if mailbox.deltas:
                    yield mailbox.deltas.popleft()
                elif num_running:
                    self._loop.advance(mailbox)
        finally:
            self._loop.discard([item.request_id for item in self._prepared], mailbox)

    def judged(self, output: RequestOutput) -> tuple[float, bool, list[float]]:
        """What a request that judged a continuation found, as `LLM.score` returns it. RequestError if it failed."""
        scores = self._mailbox.scores.get(output.request_id)
        if output.error is not None or scores is None or not scores.is_complete:
            reason = output.error or f"it ended early ({output.outputs[0].finish_reason})"
            raise RequestError(f"scoring request {output.request_id!r} failed: {reason}", code="scoring_failed")
        return float(scores.logprobs.sum(dtype="float64")), bool(scores.greedy.all()), scores.logprobs.tolist()

    def submit(self) -> None:
        """Hand everything that was prepared to the engine; what it refuses is answered at once."""
        for index, item in enumerate(self._prepared):
            error = item.error
            if item.request is not None:
                try:
                    self._loop.add(item.request, item.text, index, self._mailbox)
                except Exception as refused:
                    error = own_error(refused, "the request cannot be started", "invalid_request")
            if error is not None:
                self._refuse(index, item, error)

    def _refuse(self, index: int, item: _Prepared, error: DeepInferError) -> None:
        """Answer a request that never runs."""
        ids = [] if item.request is None else item.request.prompt_token_ids.tolist()
        self._mailbox.finished.append(self._loop.refuse(item.request_id, error, item.text, ids))
        if self._mailbox.streaming:
            failure = RequestFailure.from_exception(error)
            self._mailbox.deltas.append(
                RequestDelta(item.request_id, index, 0, "", [], finish_reason="error", error=failure)
            )
