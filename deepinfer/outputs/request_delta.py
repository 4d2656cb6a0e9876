"""What one step added to one completion, for streaming."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deepinfer.outputs.completion_output import FinishReason
from deepinfer.outputs.request_failure import RequestFailure
from deepinfer.outputs.token_logprobs import TokenLogprobs
from deepinfer.outputs.tool_call_delta import ToolCallDelta


@dataclass(frozen=True, slots=True)
class RequestDelta:
    """One item of `LLM.stream` or `LLM.stream_chat`. The texts of one completion, joined, equal its final text.

    Attributes:
        request_id: public id.
        prompt_index: place of the prompt in the call.
        choice: completion index.
        text: new text, may be empty while a stop string or a multi-byte character is incomplete.
        token_ids: new ids.
        logprobs: of the new tokens; None when not requested.
        finish_reason: set on the completion's last delta.
        stop_reason: as in CompletionOutput.
        error: set with finish_reason "error".
        reasoning, content: of `stream_chat`: new pieces, joined equal to those of `chat`; None for `stream`.
        tool_calls: of `stream_chat`: what was added to tool calls; None for `stream`.
    """

    request_id: str
    prompt_index: int
    choice: int
    text: str
    token_ids: list[int]
    logprobs: TokenLogprobs | None = None
    finish_reason: FinishReason | None = None
    stop_reason: str | int | None = None
    error: RequestFailure | None = None
    reasoning: str | None = None
    content: str | None = None
    tool_calls: list[ToolCallDelta] | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return {
            "request_id": self.request_id,
            "prompt_index": self.prompt_index,
            "choice": self.choice,
            "text": self.text,
            "token_ids": list(self.token_ids),
            "logprobs": None if self.logprobs is None else self.logprobs.to_list(),
            "finish_reason": self.finish_reason,
            "stop_reason": self.stop_reason,
            "error": None if self.error is None else self.error.to_dict(),
            "reasoning": self.reasoning,
            "content": self.content,
            "tool_calls": None if self.tool_calls is None else [call.to_dict() for call in self.tool_calls],
        }
