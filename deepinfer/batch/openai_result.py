"""The result line of a row of the OpenAI batch file format."""

from __future__ import annotations

from itertools import accumulate
from typing import Any, Final

import msgspec

from deepinfer.batch.row_answer import RowAnswer
from deepinfer.outputs import CompletionOutput, Logprob, TokenLogprobs
from deepinfer.outputs.position_logprobs import PositionLogprobs
from deepinfer.text.tokenizer import Tokenizer

_BAD_REQUEST: Final = 400
_CREATED: Final = 0  # a clock in a result would make equal jobs differ


def openai_result(answer: RowAnswer, model: str, tokenizer: Tokenizer) -> bytes:
    """A JSON object without line end: id, custom_id, response (status_code, request_id, body), error.

    Args:
        answer: of a row.
        model: name that the bodies carry.
        tokenizer: gives the bytes of single tokens, which need not be whole characters.

    A row that failed has the status code 400 and its error in the body, as the service answers a wrong request.
    """
    key, form = answer.prepared.key, answer.prepared.row.form
    if answer.failure is not None:
        failure = answer.failure
        error = {"message": failure.message, "type": "invalid_request_error", "param": None, "code": failure.code}
        status, body = _BAD_REQUEST, {"error": error}
    else:
        status, body = (
            200,
            _body(answer, f"{'chatcmpl' if form == 'chat.completion' else 'cmpl'}-{key}", model, tokenizer),
        )
    response = {"status_code": status, "request_id": f"req_{key}", "body": body}
    values = {"id": f"batch_req_{key}", "custom_id": answer.prepared.row.custom_id, "response": response, "error": None}
    return msgspec.json.encode(values)


def _body(answer: RowAnswer, name: str, model: str, tokenizer: Tokenizer) -> dict[str, Any]:
    params, is_chat = answer.prepared.params, answer.prepared.row.form == "chat.completion"
    assert params is not None, "it ran"
    num_top = None if params.logprobs == -1 else params.logprobs
    choices = [_chat_choice(item, num_top, tokenizer) if is_chat else _text_choice(item) for item in answer.completions]
    prompt, generated = answer.num_prompt_tokens, answer.num_generated_tokens
    return {
        "id": name,
        "object": answer.prepared.row.form,
        "created": _CREATED,
        "model": model,
        "choices": choices,
        "usage": {"prompt_tokens": prompt, "completion_tokens": generated, "total_tokens": prompt + generated},
    }


def _chat_choice(item: CompletionOutput, num_top: int | None, tokenizer: Tokenizer) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": item.text if item.content is None else item.content}
    if item.reasoning is not None:
        message["reasoning_content"] = item.reasoning
    if item.tool_calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in item.tool_calls
        ]
    scores: dict[str, Any] | None = None
    if item.logprobs is not None:
        places = zip(item.logprobs.token_ids.tolist(), item.logprobs, strict=True)
        scores = {"content": [_chat_score(token_id, entry, num_top, tokenizer) for token_id, entry in places]}
    reason = "tool_calls" if item.tool_calls and item.finish_reason == "stop" else item.finish_reason
    return {"index": item.index, "message": message, "logprobs": scores, "finish_reason": reason}


def _text_choice(item: CompletionOutput) -> dict[str, Any]:
    scores = None if item.logprobs is None else _text_scores(item.logprobs)
    return {"index": item.index, "text": item.text, "logprobs": scores, "finish_reason": item.finish_reason}


def _chat_score(chosen: int, entry: PositionLogprobs, num_top: int | None, tokenizer: Tokenizer) -> dict[str, Any]:
    """Of one place; the chosen token is among the best ones where its rank is, and nowhere else."""
    ranked = sorted(entry.items(), key=lambda pair: pair[1].rank)[:num_top]
    best = [_token(token_id, item, tokenizer) for token_id, item in ranked]
    return {**_token(chosen, entry[chosen], tokenizer), "top_logprobs": best}


def _token(token_id: int, item: Logprob, tokenizer: Tokenizer) -> dict[str, Any]:
    return {
        "token": item.decoded_token or "",
        "logprob": item.logprob,
        "bytes": list(tokenizer.decode_bytes([token_id])),
    }


def _text_scores(entries: TokenLogprobs) -> dict[str, Any]:
    chosen = [entry.chosen() for entry in entries]
    tokens = [item.decoded_token or "" for item in chosen]
    return {
        "tokens": tokens,
        "token_logprobs": [item.logprob for item in chosen],
        "top_logprobs": [{item.decoded_token or "": item.logprob for item in entry.values()} for entry in entries],
        "text_offset": list(accumulate(map(len, tokens[:-1]), initial=0)) if tokens else [],
    }
