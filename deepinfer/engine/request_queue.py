"""Requests handed in one by one while others run, outputs taken as they end: for callers without a last prompt."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from deepinfer.engine.call_params import params_per_prompt
from deepinfer.engine.input_processor import InputProcessor
from deepinfer.engine.mailbox import Mailbox
from deepinfer.engine.prompt_encoder import PromptEncoder
from deepinfer.engine.request_batch import RequestBatch
from deepinfer.engine.request_ids import RequestIds
from deepinfer.engine.request_loop import RequestLoop
from deepinfer.outputs import RequestOutput
from deepinfer.sampling_params import SamplingParams


class RequestQueue:
    """From `LLM.queue`. A caller that keeps it filled never waits for the last requests of a call to end.

    Its length is the number of requests whose output was not taken. Closing it ends them early; use it as a context
    manager. Queues and other calls of one LLM may be open at the same time; one queue belongs to one thread.
    """

    def __init__(
        self,
        loop: RequestLoop,
        inputs: InputProcessor,
        encoder: PromptEncoder,
        request_ids: RequestIds,
        default_params: SamplingParams,
    ) -> None:
        self._loop = loop
        self._inputs = inputs
        self._encoder = encoder
        self._request_ids = request_ids
        self._default_params = default_params
        self._mailbox = Mailbox(streaming=False)
        self._open: set[str] = set()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, prompt: Any, sampling_params: Any = None, *, request_id: str | None = None) -> str:
        """Hand in a request; `poll` computes it.

        Args:
            prompt, sampling_params: one, in the forms of `LLM.generate`.
            request_id: not that of an unfinished request; None: a running number.

        Returns:
            The request's id. What is wrong with the request is its output's error; RequestError only for the id.
        """
        given = None if request_id is None else [request_id]
        (name,) = self._request_ids.take(1, given)
        (params,) = params_per_prompt([sampling_params], 1, self._default_params)
        batch = RequestBatch(self._loop, self._inputs, self._encoder, self._mailbox)
        batch.add_generation(name, prompt, params)
        self._open.add(name)
        batch.submit()
        return name

    def poll(self) -> list[RequestOutput]:
        """Compute one step, unless outputs wait already; what has ended, in the order it ended, may be empty.

        Returns at once when nothing is open.
        """
        if self._open and not self._mailbox.has_mail:
            self._loop.advance(self._mailbox)
        outputs = []
        while self._mailbox.finished:
            output = self._mailbox.finished.popleft()
            self._mailbox.scores.pop(output.request_id, None)
            self._open.discard(output.request_id)
            outputs.append(output)
        return outputs

    def close(self) -> None:
        """End what is open early, without outputs; idempotent."""
        left, self._open = self._open, set()
        self._loop.discard(left, self._mailbox)

    def __enter__(self) -> RequestQueue:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
