"""One `LLM.chat` call: conversations to prompts, and outputs back to answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deepinfer.engine.chat_answers import ChatAnswers
from deepinfer.engine.own_error import own_error
from deepinfer.errors import DeepInferError, RequestError
from deepinfer.sampling_params import SamplingParams
from deepinfer.text.chat_format import ChatFormat
from deepinfer.text.chat_options import ChatOptions
from deepinfer.text.chat_prompt import ChatPrompt
from deepinfer.text.tokenizer import Tokenizer


class ChatCall:
    """Renders every conversation; a refused one becomes a prompt that fails with its own error.

    Attributes:
        prompts: per conversation what the prompt encoder takes: text and ids, or the error.
        params: per conversation, with the grammar of the response format.
        answers: reads what comes back.
    """

    def __init__(
        self,
        chat_format: ChatFormat,
        tokenizer: Tokenizer,
        conversations: list[Any],
        params: Sequence[SamplingParams | DeepInferError],
        options: ChatOptions,
    ) -> None:
        self.prompts: list[Any] = []
        self.params: list[SamplingParams | DeepInferError] = []
        rendered: list[ChatPrompt | None] = []
        for conversation, item in zip(conversations, params, strict=True):
            try:
                prompt = chat_format.render(conversation, options)
                item = _constrained(item, prompt)
                self.prompts.append({"prompt": prompt.text, "prompt_token_ids": prompt.token_ids})
                rendered.append(prompt)
            except Exception as error:  # also what the messages' own objects raise
                self.prompts.append(own_error(error, "the conversation cannot be read", "invalid_messages"))
                rendered.append(None)
            self.params.append(item)
        skips = [isinstance(item, DeepInferError) or item.skip_special_tokens for item in self.params]
        self.answers = ChatAnswers(tokenizer, rendered, skips)


def _constrained(params: SamplingParams | DeepInferError, prompt: ChatPrompt) -> SamplingParams | DeepInferError:
    """The parameters with the prompt's grammar, if it has one; what was wrong with them stays their error."""
    if isinstance(params, DeepInferError) or prompt.structured_outputs is None:
        return params
    if params.structured_outputs is not None:
        message = "both response_format and structured_outputs are given: leave one of them out"
        raise RequestError(message, code="invalid_sampling_params")
    return params.replace(structured_outputs=prompt.structured_outputs)
