"""What rows mean: columns, OpenAI requests, and everything that can be wrong with one."""

from typing import Any

import msgspec
import pytest

from deepinfer.batch.column_names import ColumnNames
from deepinfer.batch.input_line import InputLine
from deepinfer.batch.input_row import InputRow
from deepinfer.batch.openai_rows import OpenAIRows
from deepinfer.batch.plain_rows import PlainRows
from deepinfer.errors import JobError


def plain(row: Any, **columns: Any) -> InputRow:
    text = row if isinstance(row, bytes) or row is None else msgspec.json.encode(row)
    return PlainRows(ColumnNames(**columns)).parse(4, InputLine(0, text, 10))


def openai(body: Any, url: Any = "/v1/chat/completions", **fields: Any) -> InputRow:
    row = {"custom_id": "a", "method": "POST", "url": url, "body": body, **fields}
    return OpenAIRows().parse(4, InputLine(0, msgspec.json.encode(row), 10))


def test_columns_by_their_usual_names_and_by_others() -> None:
    row = plain(
        {"custom_id": "a", "prompt": "hi", "sampling_params": {"top_k": 3, "seed": None}, "topic": [1, {"x": 2}]}
    )
    assert (row.custom_id, row.prompt, row.params, row.error) == ("a", "hi", {"top_k": 3}, None)
    assert {name: bytes(raw) for name, raw in row.extra.items()} == {"topic": b'[1,{"x":2}]'}
    row = plain(
        {"key": 7, "text": [5, 6], "max": 9, "temperature": None, "prompt": "kept"},
        custom_id="key",
        prompt="text",
        params=(("max_tokens", "max"), ("temperature", "temperature")),
    )
    assert (row.custom_id, row.prompt, row.params) == ("7", [5, 6], {"max_tokens": 9})
    assert list(row.extra) == ["key", "max", "temperature", "prompt"]
    row = plain(
        {"messages": [{"role": "user", "content": "hi"}], "chat_options": {"thinking": True}}, keep_prompts=True
    )
    assert row.custom_id == "row-4" and row.chat == {"thinking": True} and list(row.extra) == ["messages"]


def test_other_columns_are_kept_to_the_byte() -> None:
    row = plain(b'{"prompt":"a","n":1.50,"big":123456789012345678901234567890,"t":"\\u00e9\\/"}')
    assert bytes(row.extra["n"]) == b"1.50" and bytes(row.extra["t"]) == b'"\\u00e9\\/"'
    assert bytes(row.extra["big"]) == b"123456789012345678901234567890"


@pytest.mark.parametrize(
    ("row", "code", "words"),
    [
        (None, "row_too_large", "longer than the job's limit"),
        (b'{"prompt":"a"', "invalid_json", "no JSON object"),
        (b'["prompt"]', "invalid_json", "no JSON object"),
        (b'{"prompt":NaN}', "invalid_json", "no JSON object"),
        (b'{"x":' + b"[" * 5000 + b"]" * 5000 + b"}", "invalid_json", "no JSON object"),
        (b'{"prompt":"\xff"}', "invalid_utf8", "byte 11"),
        (b'{"prompt":"\\ud800"}', "invalid_json", "cannot be read|no JSON object"),
        ({"text": "a"}, "missing_column", "no column 'prompt' or 'messages'; its columns: 'text'"),
        ({"prompt": None}, "missing_column", "no column"),
        ({"prompt": "a", "messages": []}, "invalid_prompt", "both"),
        ({"prompt": 7}, "invalid_prompt", "not a int"),
        ({"prompt": {"a": 1}}, "invalid_prompt", "not a dict"),
        ({"prompt": "a", "custom_id": True}, "invalid_custom_id", "True"),
        ({"prompt": "a", "custom_id": ""}, "invalid_custom_id", "non-empty"),
        ({"prompt": "a", "custom_id": 1.5}, "invalid_custom_id", "1.5"),
        ({"prompt": "a", "sampling_params": [1]}, "invalid_sampling_params", "not a list"),
        ({"prompt": "a", "chat_options": {"thinking": True}}, "invalid_prompt", "belongs to 'messages'"),
    ],
)
def test_a_wrong_row_has_an_error_of_its_own(row: Any, code: str, words: str) -> None:
    found = plain(row)
    assert found.error is not None and found.error.code == code and found.number == 4
    with pytest.raises(type(found.error), match=words):
        raise found.error


def test_a_wrong_row_keeps_what_could_be_read() -> None:
    row = plain({"custom_id": "a", "prompt": 7, "topic": "x"})
    assert row.error is not None and row.custom_id == "a" and bytes(row.extra["topic"]) == b'"x"'


def test_columns_that_cannot_be() -> None:
    with pytest.raises(JobError, match="'text' stands for several things"):
        ColumnNames(prompt="text", messages="text")
    with pytest.raises(JobError, match="'heat' is no sampling parameter"):
        ColumnNames(params=(("heat", "t"),))
    columns = ColumnNames(params=(("top_k", "k"),))
    assert ColumnNames.from_dict(columns.to_dict()) == columns


def test_openai_chat_requests() -> None:
    messages = [{"role": "user", "content": "hi"}]
    row = openai(
        {
            "model": "any",
            "messages": messages,
            "max_completion_tokens": 9,
            "temperature": 0,
            "logprobs": True,
            "top_logprobs": 2,
            "tools": [{"type": "function"}],
            "reasoning_effort": "low",
            "chat_template_kwargs": {"enable_thinking": True},
            "user": "u",
            "stop": None,
        }
    )
    assert row.error is None and row.form == "chat.completion" and row.messages == messages
    assert row.params == {"max_tokens": 9, "temperature": 0, "logprobs": 2}
    assert row.chat == {"tools": [{"type": "function"}], "effort": "low", "thinking": True}
    assert openai({"messages": messages, "logprobs": True}).params == {"logprobs": 0}
    assert openai({"messages": messages, "logprobs": False}).params == {}
    assert openai({"messages": messages, "tools": [1], "tool_choice": "none"}).chat == {}


def test_openai_completion_requests() -> None:
    for prompt, read in (("a", "a"), ([5, 6], [5, 6]), (["a"], "a"), ([[5, 6]], [5, 6])):
        row = openai({"prompt": prompt, "logprobs": 3, "echo": False, "best_of": 1}, "/v1/completions")
        assert (
            row.error is None and row.form == "text_completion" and row.prompt == read and row.params == {"logprobs": 3}
        )


@pytest.mark.parametrize(
    ("body", "url", "code"),
    [
        ({"messages": []}, "/v1/embeddings", "invalid_url"),
        ({"messages": []}, None, "invalid_url"),
        ("text", "/v1/completions", "missing_column"),
        (None, "/v1/completions", "missing_column"),
        ({"prompt": "a"}, "/v1/chat/completions", "missing_column"),
        ({"prompt": ["a", "b"]}, "/v1/completions", "invalid_prompt"),
        ({"prompt": "a", "echo": True}, "/v1/completions", "unsupported_field"),
        ({"prompt": "a", "best_of": 2}, "/v1/completions", "unsupported_field"),
        ({"prompt": "a", "temprature": 1}, "/v1/completions", "unknown_field"),
        ({"prompt": "a", "tools": []}, "/v1/completions", "unknown_field"),
        ({"messages": [], "stream": True}, "/v1/chat/completions", "unsupported_field"),
        ({"messages": [], "tool_choice": "required"}, "/v1/chat/completions", "unsupported_field"),
        ({"messages": [], "logprobs": 3}, "/v1/chat/completions", "invalid_logprobs"),
        ({"messages": [], "top_logprobs": 3}, "/v1/chat/completions", "invalid_logprobs"),
        (
            {"messages": [], "max_tokens": 3, "max_completion_tokens": 4},
            "/v1/chat/completions",
            "invalid_sampling_params",
        ),
        ({"messages": [], "chat_template_kwargs": {"x": 1}}, "/v1/chat/completions", "unknown_field"),
        ({"messages": [], "chat_template_kwargs": 1}, "/v1/chat/completions", "unknown_field"),
    ],
)
def test_wrong_openai_requests(body: Any, url: Any, code: str) -> None:
    row = openai(body, url)
    assert row.error is not None and row.error.code == code and row.custom_id == "a"


def test_another_method_than_post_is_refused() -> None:
    assert openai({"messages": []}, method="GET").error is not None
    assert openai({"messages": []}, method=None).error is None
