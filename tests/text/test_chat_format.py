"""Prompts of conversations: equal to the library's bytes and ids; contents never become control ids."""

import json
from pathlib import Path

import pytest

from deepinfer.errors import RequestError, UnsupportedFeatureError
from deepinfer.text.chat_defaults import ChatDefaults
from deepinfer.text.chat_format import ChatFormat
from deepinfer.text.chat_messages import split_conversations
from deepinfer.text.chat_options import ChatOptions
from deepinfer.text.tokenizer import Tokenizer
from tests.text.chat_conversations import CONVERSATIONS, NOT_PLAIN, TOOLS, TWO_TURNS, USER, assistant

GOLDEN = json.loads(Path(__file__).with_name("chat_golden.json").read_text(encoding="utf-8"))
BOS = 0


def options(fields):
    """Our options for the library's request fields."""
    thinking = {"thinking": fields["thinking"]["type"] == "enabled"} if "thinking" in fields else {}
    names = {"tools": "tools", "reasoning_effort": "effort", "response_format": "response_format"}
    return ChatOptions(**thinking, **{names[key]: value for key, value in fields.items() if key in names})


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_case_39_prompts_equal_the_librarys(chat_format, name):
    messages, fields = CONVERSATIONS[name]
    prompt = chat_format.render(messages, options(fields))
    assert prompt.text == GOLDEN[name]["text"]
    assert prompt.token_ids == GOLDEN[name]["ids"]


@pytest.mark.parametrize("role", ["user", "system", "assistant", "tool", "tools", "arguments", "reasoning"])
def test_case_39_markers_in_contents_are_plain_text(chat_format, tokenizer, role):
    markers = sorted(tokenizer.decode([number]) for number in tokenizer.special_ids)
    empty, full = _with_content(role, "-"), _with_content(role, "-" + "-".join(markers) + "-")

    def control_ids(conversation):
        prompt = chat_format.render(conversation[0], ChatOptions(tools=conversation[1]))
        return [number for number in prompt.token_ids if number in tokenizer.special_ids], prompt

    plain_ids, _ = control_ids(empty)
    ids, prompt = control_ids(full)
    assert ids == plain_ids
    assert tokenizer.decode(prompt.token_ids) == prompt.text


def _with_content(place, content):
    arguments = json.dumps({"a": content, "b": [content]} if place == "arguments" else {})
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    tools = [{"type": "function", "function": {"name": "f", "description": content if place == "tools" else "x"}}]
    messages = [
        {"role": "system", "content": content if place == "system" else "x"},
        {"role": "user", "content": content if place == "user" else "x"},
        {
            "role": "assistant",
            "content": content if place == "assistant" else "x",
            "reasoning_content": content if place == "reasoning" else "x",
            "tool_calls": [call],
        },
        {"role": "tool", "tool_call_id": "c", "content": content if place == "tool" else "x"},
    ]
    return messages, tools


def test_case_40_one_begin_of_text_and_text_encodes_to_the_same_ids(chat_format, tokenizer):
    plain = [name for name in CONVERSATIONS if name not in NOT_PLAIN]
    assert len(plain) >= 20
    for name in plain:
        messages, fields = CONVERSATIONS[name]
        prompt = chat_format.render(messages, options(fields))
        assert prompt.token_ids.count(BOS) == 1 and prompt.token_ids[0] == BOS
        assert tokenizer.encode(prompt.text) == prompt.token_ids == tokenizer.encode_prompt(prompt.text)


def test_thinking_and_effort_defaults(chat_format, tokenizer):
    quiet = ChatFormat(tokenizer, ChatDefaults(thinking=False))
    hard = ChatFormat(tokenizer, ChatDefaults(effort="max"))
    assert chat_format.render([USER]).starts_in_reasoning
    assert not quiet.render([USER]).starts_in_reasoning
    assert quiet.render([USER], ChatOptions(thinking=True)).starts_in_reasoning
    assert quiet.render([USER], ChatOptions(effort="low")).text == GOLDEN["effort-low"]["text"]  # asked for: on
    assert not chat_format.render([USER], ChatOptions(effort="none")).starts_in_reasoning
    assert "Effort: 100" in hard.render([USER]).text
    assert "Effort: 50" in hard.render([USER], ChatOptions(effort="low")).text
    with pytest.raises(RequestError, match='effort="none" turns thinking off'):
        chat_format.render([USER], ChatOptions(thinking=True, effort="none"))
    with pytest.raises(RequestError, match="unknown variant `lots`"):
        chat_format.render([USER], ChatOptions(effort="lots"))
    with pytest.raises(RequestError, match="expected True, False or None"):
        chat_format.render([USER], ChatOptions(thinking="no"))


@pytest.mark.parametrize("thinking", [True, False])
def test_ends_of_prompts(chat_format, thinking):
    talk = [*TWO_TURNS[:2]]
    on = chat_format.render([USER], ChatOptions(thinking=thinking))
    bare = chat_format.render([USER], ChatOptions(thinking=thinking, add_generation_prompt=False))
    marker = "<｜Assistant｜>" + ("<think>" if thinking else "</think>")
    assert on.text == bare.text + marker and on.token_ids[:-2] == bare.token_ids
    open_end = chat_format.render(talk, ChatOptions(thinking=thinking, continue_final_message=True))
    assert open_end.text.endswith("</think>Oslo.") and not open_end.starts_in_reasoning
    same = ChatOptions(thinking=thinking, continue_final_message=True, add_generation_prompt=False)
    assert chat_format.render(talk, same).token_ids == open_end.token_ids
    with pytest.raises(RequestError, match="needs an assistant message at the end"):
        chat_format.render([USER], ChatOptions(continue_final_message=True))


def test_message_forms(chat_format):
    reference = chat_format.render(*_tool_talk(json.dumps({"a": 1, "b": "é"}, ensure_ascii=False)))
    assert chat_format.render(*_tool_talk({"a": 1, "b": "é"})).token_ids == reference.token_ids
    dumped = {**USER, "refusal": None, "annotations": [], "tool_calls": None}
    assert chat_format.render([dumped]).token_ids == GOLDEN["user"]["ids"]
    parts = {"role": "user", "content": [{"type": "text", "text": USER["content"]}]}
    assert chat_format.render([parts]).token_ids == GOLDEN["user"]["ids"]
    talk = [USER, {"role": "assistant", "content": "x", "reasoning": "why", "prefix": True}]
    assert chat_format.render(talk).text.endswith("<think>why</think>x")


def _tool_talk(arguments):
    call = {"id": "c1", "function": {"name": "find_place", "arguments": arguments}}
    messages = [USER, assistant(None, tool_calls=[call]), {"role": "tool", "tool_call_id": "c1", "content": "1"}]
    return messages, ChatOptions(tools=TOOLS)


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([], "the conversation is empty"),
        ("text", "a conversation is a str"),
        ([3], r"messages\[0\] is a int"),
        ([{"role": "user", "contents": "x"}], "unknown key 'contents': did you mean 'content'"),
        ([{"role": "user"}], "missing field `content`"),
        ([{"role": "operator", "content": "x"}], "unknown variant `operator`"),
        ([{"content": "x"}], "missing field `role`"),
        ([USER, {"role": "tool", "tool_call_id": "zz", "content": "x"}], "preceding message with 'tool_calls'"),
        ([{"role": "user", "content": "a\ud800b"}], "surrogates not allowed"),
        ([assistant("", tool_calls=["f"])], "holds 'f'"),
    ],
)
def test_wrong_conversations_name_what_is_wrong(chat_format, messages, message):
    with pytest.raises(RequestError, match=message) as caught:
        chat_format.render(messages)
    assert caught.value.code == "invalid_messages"


def test_images_wrong_tools_and_missing_tokens(chat_format, tokenizer):
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    with pytest.raises(UnsupportedFeatureError, match="image input is not built yet"):
        chat_format.render([{"role": "user", "content": [image]}])
    for tools in ([{"type": "function", "function": {"name": "bad name"}}], [{"name": "f"}], [{"x": float("nan")}]):
        with pytest.raises(RequestError):
            chat_format.render([USER], ChatOptions(tools=tools))
    import tokenizers

    description = json.loads(tokenizer.to_json())
    description["added_tokens"] = [row for row in description["added_tokens"] if row["content"] != "｜DSML｜"]
    poor = ChatFormat(Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(description))))
    assert poor.render([USER]).token_ids == GOLDEN["user"]["ids"]
    with pytest.raises(RequestError, match="no special token '｜DSML｜'") as caught:
        poor.render([USER], ChatOptions(tools=TOOLS))
    assert caught.value.code == "missing_special_token"


def test_response_formats_ask_for_grammars(chat_format):
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    asked = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}

    def grammar(**fields):
        return chat_format.render([{"role": "user", "content": "JSON"}], ChatOptions(**fields)).structured_outputs

    assert grammar() is None and grammar(response_format={"type": "text"}) is None
    assert grammar(thinking=False, response_format={"type": "json_object"}) == {"json_object": True}
    constrained = grammar(thinking=True, response_format=asked)
    assert json.loads(constrained.pop("json")) == schema and constrained == {"trigger_token_ids": [7]}  # </think>
    pattern = {"type": "regex", "regex": "[ab]+"}
    assert grammar(thinking=False, response_format=pattern) == {"regex": "[ab]+"}
    assert grammar(thinking=False, response_format=asked, tools=TOOLS) is None  # the answer may be a call
    with pytest.raises(RequestError, match="must contain the word 'json'"):
        chat_format.render([USER], ChatOptions(response_format={"type": "json_object"}))


def test_split_conversations():
    assert split_conversations([USER]) == [[USER]]
    assert split_conversations([[USER], [USER, USER]]) == [[USER], [USER, USER]]
    assert split_conversations([]) == [] and split_conversations([[USER], "x"]) == [[USER], "x"]
    for wrong in ("x", USER, None, 3):
        with pytest.raises(RequestError, match="expected a list of messages"):
            split_conversations(wrong)
