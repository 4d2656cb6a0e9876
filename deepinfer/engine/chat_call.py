"""One `LLM.chat` call: conversations to prompts, and outputs back to answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deepinfer.engine.chat_answers import ChatAnswers
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
        params: Sequence[SamplingParams | RequestError],
        options: ChatOptions,
    ) -> None:
        self.prompts: list[Any] = []
        self.params: list[SamplingParams | RequestError] = []
        rendered: list[ChatPrompt | None] = []
        for conversation, item in zip(conversations, params, strict=True):
            try:
                prompt = chat_format.render(conversation, options)
                item = _constrained(item, prompt)
                self.prompts.append({"prompt": prompt.text, "prompt_token_ids": prompt.token_ids})
                rendered.append(prompt)
            except DeepInferError as error:
                self.prompts.append(error)
                rendered.append(None)
            self.params.append(item)
        skips = [isinstance(item, RequestError) or item.skip_special_tokens for item in self.params]
        self.answers = ChatAnswers(tokenizer, rendered, skips)


def _constrained(params: SamplingParams | RequestError, prompt: ChatPrompt) -> SamplingParams | RequestError:
    """The parameters with the prompt's grammar, if it has one; what was wrong with them stays their error."""
    if isinstance(params, RequestError) or prompt.structured_outputs is None:
        return params
    if params.structured_outputs is not None:
        message = "both response_format and structured_outputs are given: leave one of them out"
        raise RequestError(message, code="invalid_sampling_params")
    return params.replace(structured_outputs=prompt.structured_outputs)
