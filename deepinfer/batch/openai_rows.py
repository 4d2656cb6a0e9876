"""Rows of the OpenAI batch file format: requests to /v1/chat/completions and /v1/completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from deepinfer.batch.input_line import InputLine
from deepinfer.batch.input_row import AnswerForm, InputRow, default_id
from deepinfer.batch.row_fields import RowFields, read_custom_id, read_fields, read_value
from deepinfer.errors import RequestError
from deepinfer.sampling_param_checks import CHECKS

_FORMS: Final[dict[str, AnswerForm]] = {
    "/v1/chat/completions": "chat.completion",
    "/v1/completions": "text_completion",
}
# Fields about the account, the transport or a service's own bookkeeping: they change no answer.
_IGNORED: Final = frozenset(
    {
        "metadata",
        "model",
        "parallel_tool_calls",
        "prompt_cache_key",
        "safety_identifier",
        "service_tier",
        "store",
        "stream_options",
        "user",
    }
)
# Fields that have an effect which cannot be had here, with the values that ask for nothing.
_NEUTRAL: Final[dict[str, tuple[Any, ...]]] = {
    "stream": (False,),
    "echo": (False,),
    "best_of": (1,),
    "suffix": ("",),
    "modalities": (["text"],),
}
_RENAMED: Final = {"max_completion_tokens": "max_tokens", "reasoning_effort": "effort"}
_CHAT: Final = frozenset({"tools", "response_format", "effort", "thinking"})


class OpenAIRows:
    """Reads request lines; the model that they name is not looked at, as a job has one model."""

    id_column = "custom_id"
    wanted = ("body",)
    advice = "rows of the OpenAI batch format have one; give --format jsonl for any other file"

    def answers_to(self, fields: RowFields) -> bool:
        return "body" in fields

    def parse(self, number: int, line: InputLine) -> InputRow:
        custom_id, form = default_id(number), _FORMS["/v1/chat/completions"]
        try:
            fields = read_fields(line)
            custom_id = read_custom_id(fields, self.id_column) or custom_id
            form = _form(fields)
            body = read_value(fields, "body")
            if not isinstance(body, dict):
                message = '"body" must be an object with the request' if "body" in fields else 'the row has no "body"'
                raise RequestError(message, code="missing_column")
            return _request(InputRow(number, custom_id, line.num_bytes, form=form), body)
        except RequestError as error:
            return InputRow(number, custom_id, line.num_bytes, form=form, error=error)


def _form(fields: RowFields) -> AnswerForm:
    url, method = read_value(fields, "url"), read_value(fields, "method")
    if not isinstance(url, str) or url not in _FORMS:
        raise RequestError(f'"url" is {url!r:.80}; expected one of {", ".join(_FORMS)}', code="invalid_url")
    if method not in (None, "POST"):
        raise RequestError(f'"method" is {method!r:.80}; expected "POST"', code="invalid_url")
    return _FORMS[url]


def _request(row: InputRow, body: Mapping[str, Any]) -> InputRow:
    is_chat = row.form == "chat.completion"
    needed = "messages" if is_chat else "prompt"
    given = {_RENAMED.get(name, name): value for name, value in body.items() if value is not None}
    content = given.pop(needed, None)
    if content is None:
        raise RequestError(f'the body has no "{needed}"', code="missing_column")
    if None not in (body.get("max_tokens"), body.get("max_completion_tokens")):
        message = "the body has both max_tokens and max_completion_tokens: leave one of them out"
        raise RequestError(message, code="invalid_sampling_params")
    template = given.pop("chat_template_kwargs", {})
    options = given | _thinking(template)
    _choose_tools(options)
    _score(options, is_chat)
    chat, params = {}, {}
    for name, value in options.items():
        if name in _IGNORED:
            continue
        if name in _NEUTRAL:
            if value not in _NEUTRAL[name]:
                raise RequestError(f"{name}={value!r:.80}: not possible in a batch job", code="unsupported_field")
        elif is_chat and name in _CHAT:
            chat[name] = value
        elif name in CHECKS and name != "logits_processors":
            params[name] = value
        else:
            raise RequestError(f"the body has the unknown field {name!r}", code="unknown_field")
    if is_chat:
        return InputRow(row.number, row.custom_id, row.num_bytes, None, content, chat, params, {}, row.form)
    return InputRow(row.number, row.custom_id, row.num_bytes, _one(content), None, {}, params, {}, row.form)


def _one(prompt: Any) -> Any:
    """One prompt: of a list of prompts its only one."""
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)):
        return prompt[0]
    if isinstance(prompt, list) and any(isinstance(item, (str, list)) for item in prompt):
        raise RequestError(f"the body has {len(prompt)} prompts; a row takes one", code="invalid_prompt")
    return prompt


def _thinking(options: Any) -> dict[str, Any]:
    """What the chat template's options say about thinking, by either of its usual names."""
    if not isinstance(options, dict):
        raise RequestError('"chat_template_kwargs" must be an object', code="unknown_field")
    found = {}
    for name, value in options.items():
        if name not in ("thinking", "enable_thinking"):
            raise RequestError(f"chat_template_kwargs has the unknown option {name!r}", code="unknown_field")
        found["thinking"] = value
    return found


def _choose_tools(options: dict[str, Any]) -> None:
    choice = options.pop("tool_choice", "auto")
    if choice == "none":
        options.pop("tools", None)
    elif choice != "auto":
        message = f'tool_choice={choice!r:.80}: the model chooses itself; expected "auto" or "none"'
        raise RequestError(message, code="unsupported_field")


def _score(options: dict[str, Any], is_chat: bool) -> None:
    """OpenAI's two ways to ask for log-probabilities, as the one of SamplingParams."""
    if not is_chat:
        return
    wanted, top = options.pop("logprobs", False), options.pop("top_logprobs", None)
    if not isinstance(wanted, bool):
        raise RequestError(f'"logprobs" must be true or false here, not {wanted!r:.80}', code="invalid_logprobs")
    if wanted:
        options["logprobs"] = 0 if top is None else top
    elif top:
        raise RequestError('"top_logprobs" needs "logprobs": true', code="invalid_logprobs")
