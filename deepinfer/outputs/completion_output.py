"""One completion of a request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from deepinfer.outputs.draft_confidence import DraftConfidence
from deepinfer.outputs.request_failure import RequestFailure
from deepinfer.outputs.token_logprobs import TokenLogprobs
from deepinfer.outputs.tool_call import ToolCall

FinishReason = Literal["stop", "length", "abort", "error"]
CACHE_CAPACITY: Final = "cache_capacity"  # stop_reason of a "length" that no parameter of the request caused


@dataclass(frozen=True, slots=True)
class CompletionOutput:
    """The text and tokens of one completion.

    Attributes:
        index: choice number among the n of its request.
        text: generated text, special tokens skipped unless asked for.
        token_ids: generated ids, the stopping id included.
        cumulative_logprob: sum of the tokens' log-probabilities; None when logprobs were not requested.
        logprobs: one {token id: Logprob} per token; None when not requested.
        finish_reason: "stop", "length", "abort", "error"; None while running.
        stop_reason: the stop string or the stop token id that ended it; with finish_reason "length" "cache_capacity"
            when the whole cache was too small for it; None for EOS and other ends.
        num_draft_tokens: drafts that were verified.
        num_accepted_tokens: drafts that were accepted.
        confidence: with ``speculative={"report_confidences": True}`` one entry, in output order, for each draft that
            was compared with a token of `token_ids`: the accepted ones and the first wrong one of each block. Drafts
            behind a wrong one or behind the end of the text have none. None when not asked for.
        error: why this completion failed; None when it did not.
        grammar_complete: whether the text is a whole value of the request's grammar; None without a grammar. False
            behind a stop string, which may have cut it.
        reasoning: from `LLM.chat`: what was thought before the answer; None with thinking off and for `generate`.
        content: from `LLM.chat`: the answer without reasoning, tool calls and markers; None for `generate`.
        tool_calls: from `LLM.chat`: the calls in order, empty without any; None for `generate`.
    """

    index: int = 0
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    cumulative_logprob: float | None = None
    logprobs: TokenLogprobs | None = None
    finish_reason: FinishReason | None = None
    stop_reason: str | int | None = None
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0
    confidence: tuple[DraftConfidence, ...] | None = None
    error: RequestFailure | None = None
    grammar_complete: bool | None = None
    reasoning: str | None = None
    content: str | None = None
    tool_calls: list[ToolCall] | None = None

    def finished(self) -> bool:
        """Whether no more tokens will come."""
        return self.finish_reason is not None

    def to_message(self) -> dict[str, Any]:
        """The assistant message to append to a conversation before its next turn. ValueError for `generate`."""
        if self.content is None:
            raise ValueError("only completions of chat() make messages; this one has no parsed content")
        message: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.tool_calls:
            calls = [(call.id, {"name": call.name, "arguments": call.arguments}) for call in self.tool_calls]
            message["tool_calls"] = [{"id": key, "type": "function", "function": function} for key, function in calls]
        return message

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return {
            "index": self.index,
            "text": self.text,
            "token_ids": list(self.token_ids),
            "cumulative_logprob": self.cumulative_logprob,
            "logprobs": None if self.logprobs is None else self.logprobs.to_list(),
            "finish_reason": self.finish_reason,
            "stop_reason": self.stop_reason,
            "num_draft_tokens": self.num_draft_tokens,
            "num_accepted_tokens": self.num_accepted_tokens,
            "confidence": None if self.confidence is None else [item.to_dict() for item in self.confidence],
            "error": None if self.error is None else self.error.to_dict(),
            "grammar_complete": self.grammar_complete,
            "reasoning": self.reasoning,
            "content": self.content,
            "tool_calls": None if self.tool_calls is None else [call.to_dict() for call in self.tool_calls],
        }
