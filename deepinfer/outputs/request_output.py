"""The result of one prompt."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from deepinfer.outputs.completion_output import CompletionOutput
from deepinfer.outputs.prompt_logprob_list import PromptLogprobList
from deepinfer.outputs.request_failure import RequestFailure
from deepinfer.outputs.request_metrics import RequestMetrics


@dataclass(frozen=True, slots=True)
class RequestOutput:
    """What `LLM.generate` returns per prompt, in prompt order.

    Attributes:
        request_id: public id.
        prompt: the prompt's text; None when ids were given.
        prompt_token_ids: ids as the model saw them; empty when the prompt could not be encoded.
        prompt_logprobs: one None | {token id: Logprob} per prompt token; None when not requested.
        outputs: completions by index; at least one, also for a failed request (finish_reason "error").
        finished: whether no more tokens will come.
        error: why the request failed, or the first of its completions that did; None when all is well.
        num_cached_tokens: prompt tokens that were not computed, thanks to a saved prefix.
        metrics: times, counts and modes.
    """

    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]
    finished: bool = True
    prompt_logprobs: PromptLogprobList | None = None
    error: RequestFailure | None = None
    num_cached_tokens: int = 0
    metrics: RequestMetrics = field(default_factory=RequestMetrics)

    @classmethod
    def failed(
        cls,
        request_id: str,
        error: BaseException,
        prompt: str | None = None,
        prompt_token_ids: list[int] | None = None,
    ) -> RequestOutput:
        """The result of a request that never ran: one empty completion with finish_reason "error"."""
        failure = RequestFailure.from_exception(error)
        completion = CompletionOutput(finish_reason="error", error=failure)
        return cls(request_id, prompt, prompt_token_ids or [], [completion], error=failure)

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe: ``json.dumps(output.to_dict(), allow_nan=False)`` never fails."""
        return {
            "request_id": self.request_id,
            "prompt": self.prompt,
            "prompt_token_ids": list(self.prompt_token_ids),
            "prompt_logprobs": None if self.prompt_logprobs is None else self.prompt_logprobs.to_list(),
            "outputs": [item.to_dict() for item in self.outputs],
            "finished": self.finished,
            "error": None if self.error is None else self.error.to_dict(),
            "num_cached_tokens": self.num_cached_tokens,
            "metrics": self.metrics.to_dict(),
        }
