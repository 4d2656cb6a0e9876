"""The result line of a row of JSON lines or Parquet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from deepinfer.batch.row_answer import RowAnswer
from deepinfer.outputs import CompletionOutput

_NAMES: Final = ("custom_id", "completions", "prompt_logprobs", "usage", "error")


def plain_result(answer: RowAnswer, *, token_ids: bool) -> bytes:
    """A JSON object without line end: id, the kept columns, completions, usage, error.

    Args:
        answer: of a row.
        token_ids: whether completions carry their ids.

    A column that has a name of the result's own gets "input_" before it.
    """
    row, failure = answer.prepared.row, answer.failure
    values: dict[str, Any] = {"custom_id": row.custom_id}
    for name, raw in row.extra.items():
        values[_free_name(name, row.extra)] = raw
    values["completions"] = [_completion(item, token_ids) for item in answer.completions]
    if answer.prompt_logprobs is not None:
        values["prompt_logprobs"] = answer.prompt_logprobs.to_list()
    usage = {"prompt_tokens": answer.num_prompt_tokens, "completion_tokens": answer.num_generated_tokens}
    values["usage"] = usage if failure is None else None
    values["error"] = None if failure is None else failure.to_dict()
    return msgspec.json.encode(values)


def _free_name(name: str, others: Iterable[str]) -> str:
    taken = {*_NAMES, *others} - {name} if name not in _NAMES else {*_NAMES, *others}
    while name in taken:
        name = f"input_{name}"
    return name


def _completion(item: CompletionOutput, token_ids: bool) -> dict[str, Any]:
    values: dict[str, Any] = {"index": item.index, "text": item.text}
    if token_ids:
        values["token_ids"] = item.token_ids
    values |= {"finish_reason": item.finish_reason, "stop_reason": item.stop_reason}
    if item.logprobs is not None:
        values |= {"cumulative_logprob": item.cumulative_logprob, "logprobs": item.logprobs.to_list()}
    if item.grammar_complete is not None:
        values["grammar_complete"] = item.grammar_complete
    if item.content is not None:
        values |= {"reasoning": item.reasoning, "content": item.content}
        values["tool_calls"] = [call.to_dict() for call in item.tool_calls or ()]
    return values
