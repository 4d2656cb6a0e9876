"""Answers of the V4.1 format taken apart while they arrive, over the library's stream processor."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import deepseek_recipe
from deepseek_recipe import InferenceChunk, InferenceFinishReason

from deepinfer.outputs import ToolCallDelta
from deepinfer.text.chat_pieces import ChatPieces
from deepinfer.text.chat_prompt import ChatPrompt
from deepinfer.text.marked_text import MarkedText
from deepinfer.text.tokenizer import Tokenizer

_Chunk = (
    deepseek_recipe.ChatCompletionChunk | deepseek_recipe.ResponsesStreamEvent | deepseek_recipe.MessagesStreamEvent
)


class ChatParser:
    """Parser of one completion. The pieces joined do not depend on how the answer was cut into pushes."""

    def __init__(self, prompt: ChatPrompt, tokenizer: Tokenizer, *, skip_special_tokens: bool, call_ids: str) -> None:
        """`call_ids`: prefix of the calls' ids; a call's number is appended."""
        generator = deepseek_recipe.ChatCompletionRequest.chunk_generator(prompt.request, "chat", "chat")
        self._processor = deepseek_recipe.StreamProcessor(generator, prompt.request.parsing_options)
        self._processor.push(InferenceChunk.ready())
        self._marked = MarkedText(tokenizer, skip_special_tokens=skip_special_tokens)
        self._call_ids = call_ids

    def push(self, token_ids: Sequence[int], text: str, *, ended_by_token: bool = False) -> ChatPieces:
        """Take a step's tokens and the text that became visible with them.

        Args:
            token_ids: new ids.
            text: new visible text; may lag behind the ids.
            ended_by_token: the last id is an EOS that ended the completion: it belongs to no part.
        """
        marked = self._marked.push(token_ids, text, ended_by_token=ended_by_token)
        return self._pieces(self._processor.push(InferenceChunk.text(marked)) if marked else ())

    def finish(self, *, is_cut: bool) -> ChatPieces:
        """What was held back. `is_cut`: the answer was broken off (length, abort), not ended by the model."""
        reason = InferenceFinishReason.Length if is_cut else InferenceFinishReason.Stop
        return self._pieces([*self._processor.push(InferenceChunk.finish(reason)), *self._processor.finish()])

    def _pieces(self, chunks: Iterable[_Chunk]) -> ChatPieces:
        pieces = ChatPieces()
        for chunk in chunks:
            for choice in json.loads(chunk.to_json())["choices"]:
                delta = choice["delta"]
                pieces.reasoning += delta.get("reasoning_content") or ""
                pieces.content += delta.get("content") or ""
                for call in delta.get("tool_calls") or ():
                    function, number = call["function"], call["index"]
                    call_id = f"{self._call_ids}-{number}" if "id" in call else None
                    arguments = function.get("arguments") or ""
                    pieces.tool_calls.append(ToolCallDelta(number, call_id, function.get("name"), arguments))
        return pieces
