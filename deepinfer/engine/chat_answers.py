"""Outputs of chat requests: the plain completions with reasoning, content and tool calls beside their text."""

from __future__ import annotations

from dataclasses import replace

from deepinfer.outputs import CompletionOutput, RequestDelta, RequestOutput, ToolCall, ToolCallDelta
from deepinfer.text.chat_parser import ChatParser
from deepinfer.text.chat_pieces import ChatPieces
from deepinfer.text.chat_prompt import ChatPrompt
from deepinfer.text.tokenizer import Tokenizer


class ChatAnswers:
    """Lives for one call. Reads the answers of its conversations; text and token ids stay as they are."""

    def __init__(self, tokenizer: Tokenizer, prompts: list[ChatPrompt | None], skips: list[bool]) -> None:
        """Args:
        tokenizer: of the model.
        prompts: per conversation, None for a refused one.
        skips: per conversation, whether its text lacks special tokens.
        """
        self._tokenizer = tokenizer
        self._prompts = prompts
        self._skips = skips
        self._streams: dict[tuple[int, int], ChatParser] = {}

    def output(self, place: int, output: RequestOutput) -> RequestOutput:
        """The finished output of conversation number `place`, its completions parsed."""
        if self._prompts[place] is None:
            return output
        parsed = [self._completion(place, output.request_id, item) for item in output.outputs]
        return replace(output, outputs=parsed)

    def delta(self, delta: RequestDelta) -> RequestDelta:
        """The next delta of a stream, parsed; deltas of one completion must come in order."""
        prompt, key = self._prompts[delta.prompt_index], (delta.prompt_index, delta.choice)
        if prompt is None:
            return delta
        if key not in self._streams:
            self._streams[key] = self._parser(delta.prompt_index, delta.request_id, delta.choice)
        parser = self._streams[key]
        by_token = delta.finish_reason == "stop" and delta.stop_reason is None and bool(delta.token_ids)
        pieces = [parser.push(delta.token_ids, delta.text, ended_by_token=by_token)]
        if delta.finish_reason is not None:
            pieces.append(parser.finish(is_cut=delta.finish_reason != "stop"))
            del self._streams[key]
        reasoning, content, calls = _joined(pieces)
        thinks = reasoning or _thinks(prompt)
        return replace(delta, reasoning=reasoning if thinks else None, content=content, tool_calls=calls)

    def _completion(self, place: int, request_id: str, completion: CompletionOutput) -> CompletionOutput:
        prompt = self._prompts[place]
        assert prompt is not None
        parser = self._parser(place, request_id, completion.index)
        by_token = completion.finish_reason == "stop" and completion.stop_reason is None
        first = parser.push(
            completion.token_ids, completion.text, ended_by_token=by_token and bool(completion.token_ids)
        )
        reasoning, content, calls = _joined([first, parser.finish(is_cut=completion.finish_reason != "stop")])
        thinks = reasoning or _thinks(prompt)
        return replace(
            completion, reasoning=reasoning if thinks else None, content=content, tool_calls=_whole_calls(calls)
        )

    def _parser(self, place: int, request_id: str, choice: int) -> ChatParser:
        prompt = self._prompts[place]
        assert prompt is not None
        call_ids = f"call-{request_id}-{choice}"
        skips = self._skips[place]
        return ChatParser(prompt, self._tokenizer, skip_special_tokens=skips, call_ids=call_ids)


def _thinks(prompt: ChatPrompt) -> bool:
    return prompt.request.conversation.thinking_mode


def _joined(pieces: list[ChatPieces]) -> tuple[str, str, list[ToolCallDelta]]:
    reasoning = "".join(item.reasoning for item in pieces)
    content = "".join(item.content for item in pieces)
    return reasoning, content, [call for item in pieces for call in item.tool_calls]


def _whole_calls(deltas: list[ToolCallDelta]) -> list[ToolCall]:
    calls: dict[int, ToolCall] = {}
    for delta in deltas:
        if delta.index in calls:
            known = calls[delta.index]
            calls[delta.index] = replace(known, arguments=known.arguments + delta.arguments)
        else:
            calls[delta.index] = ToolCall(delta.id or "", delta.name or "", delta.arguments)
    return list(calls.values())
