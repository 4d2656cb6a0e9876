"""The V4.1 prompt format: conversations to prompt ids, over the model maker's own library ``deepseek-recipe``."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any, Final

import deepseek_recipe

from deepinfer.errors import RequestError, UnsupportedFeatureError
from deepinfer.text.chat_defaults import ChatDefaults
from deepinfer.text.chat_messages import normalized_messages
from deepinfer.text.chat_options import ChatOptions
from deepinfer.text.chat_prompt import ChatPrompt
from deepinfer.text.tokenizer import Tokenizer

_MODEL: Final = "DeepSeek-V4.1-Flash"  # the name by which the library knows the format
_NO_EFFORT: Final = "none"


class ChatFormat:
    """Renders conversations for one tokenizer. What stands inside contents is never read as a marker."""

    def __init__(self, tokenizer: Tokenizer, defaults: ChatDefaults | None = None) -> None:
        self._tokenizer = tokenizer
        self._defaults = defaults or ChatDefaults()

    def render(self, conversation: Any, options: ChatOptions | None = None) -> ChatPrompt:
        """The prompt of one conversation.

        Args:
            conversation: list of message dicts with role "system", "user", "assistant" (content, reasoning_content,
                tool_calls), "tool" (content, tool_call_id) or "latest_reminder".
            options: None for defaults.

        Raises:
            RequestError: code invalid_messages for what the format refuses, in the library's words;
                missing_special_token for a tokenizer without a marker that the prompt needs.
            UnsupportedFeatureError: a message holds images.
        """
        options = options or ChatOptions()
        messages = normalized_messages(conversation, continue_final=options.continue_final_message)
        request = _convert(self._body(messages, options))
        rendered = self._encoding.render_conversation(request.conversation)
        if rendered.image_sources:
            raise UnsupportedFeatureError("a message holds images: image input is not built yet; leave them out")
        text, ids = rendered.prompt, self._encode(request, rendered)
        if not options.add_generation_prompt and not request.conversation.messages[-1].prefix:
            text = text[: rendered.special_ranges[-2][0]]  # the assistant's marker and <think> or </think>
            ids = ids[:-2]
        stage = request.parsing_options.thinking_initial_stage
        in_reasoning = stage is not None and stage.starts_in_reasoning()
        return ChatPrompt(text, ids, in_reasoning, self._grammar(request, in_reasoning), request)

    @cached_property
    def _encoding(self) -> deepseek_recipe.DeepseekV41Encoding:
        reader = deepseek_recipe.Tokenizer.from_str(self._tokenizer.to_json())
        return deepseek_recipe.DeepseekV41Encoding().with_tokenizer(reader)

    def _body(self, messages: list[dict[str, Any]], options: ChatOptions) -> dict[str, Any]:
        effort = options.effort if options.effort is not None else self._defaults.effort
        thinking = options.thinking
        if thinking is None:
            thinking = self._defaults.thinking if options.effort is None else options.effort != _NO_EFFORT
        elif not isinstance(thinking, bool):
            raise RequestError(f"thinking={thinking!r}: expected True, False or None", code="invalid_messages")
        elif thinking and options.effort == _NO_EFFORT:
            raise RequestError('effort="none" turns thinking off, but thinking=True', code="invalid_messages")
        body = {"model": _MODEL, "messages": messages, "thinking": {"type": "enabled" if thinking else "disabled"}}
        optional = {"reasoning_effort": effort, "tools": options.tools, "response_format": options.response_format}
        return body | {name: value for name, value in optional.items() if value}

    def _encode(
        self, request: deepseek_recipe.ConversationRequest, rendered: deepseek_recipe.RenderedPrompt
    ) -> list[int]:
        for begin, end in rendered.special_ranges:
            marker = rendered.prompt[begin:end]
            if self._tokenizer.added_token_id(marker) is None:
                raise RequestError(
                    f"the tokenizer has no special token {marker!r}, which the V4.1 prompt format needs: "
                    "use the model's own tokenizer, or call generate() with a prompt of your own",
                    code="missing_special_token",
                )
        return self._encoding.encode(request.conversation)

    def _grammar(self, request: deepseek_recipe.ConversationRequest, in_reasoning: bool) -> dict[str, Any] | None:
        """What the response format demands of the answer; with tools an answer may be a call, so nothing."""
        constraint = request.inference_options.output_constraint
        if constraint is None or constraint.kind not in ("json", "regex"):
            return None
        grammar: dict[str, Any] = {constraint.kind: constraint.schema} if constraint.schema else {"json_object": True}
        if in_reasoning:  # free until the reasoning is closed
            end = deepseek_recipe.SpecialToken.ThinkingEnd.default_str()
            grammar["trigger_token_ids"] = [self._tokenizer.added_token_id(end)]
        return grammar


def _convert(body: dict[str, Any]) -> deepseek_recipe.ConversationRequest:
    """The library's request; everything it refuses becomes a RequestError in its words."""
    try:
        request = deepseek_recipe.ChatCompletionRequest(json.dumps(body, ensure_ascii=False, allow_nan=False))
        return request.convert(deepseek_recipe.ConversionOptions())
    except (deepseek_recipe.ConversionError, ValueError, TypeError) as error:
        message = str(error).removeprefix("invalid request body: ")
        raise RequestError(f"the conversation is refused: {message}", code="invalid_messages") from error
