"""Answers taken apart: reasoning, content and tool calls, however the text is cut into pieces."""

import json
import random

import pytest

from deepinfer.outputs import ToolCall
from deepinfer.text.chat_options import ChatOptions
from deepinfer.text.chat_parser import ChatParser
from deepinfer.text.detokenizer import Detokenizer
from tests.text.chat_conversations import ARGUMENTS, CONVERSATIONS, TOOLS, TWO_TURNS, USER

EOS = 1
CALLS = CONVERSATIONS["two-results"][0][1]["tool_calls"]


def answer_of_library(chat_format, message, **fields):
    """The text that the format itself writes for an assistant message, behind the prompt."""
    options = ChatOptions(tools=TOOLS, **fields)
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "1"} for call in message["tool_calls"]]
    whole = chat_format.render([USER, message, *results], options).text
    head = chat_format.render([USER], options).text
    return whole[len(head) : whole.index("<｜end▁of▁sentence｜>")]


def parse(chat_format, tokenizer, text, pieces, *, skip=True, ended=True, is_cut=False, **fields):
    """Joined (reasoning, content, calls) of the text's ids, pushed as many at a time as `pieces` says."""
    prompt = chat_format.render([USER], ChatOptions(**fields))
    parser = ChatParser(prompt, tokenizer, skip_special_tokens=skip, call_ids="call")
    ids = tokenizer.encode(text) + [EOS] * ended
    visible, found, place = Detokenizer(tokenizer, skip_special_tokens=skip), [], 0
    while place < len(ids):
        step = ids[place : place + pieces()]
        place += len(step)
        shown = visible.push(step) + (visible.finish() if place == len(ids) else "")
        found.append(parser.push(step, shown, ended_by_token=ended and place == len(ids)))
    found.append(parser.finish(is_cut=is_cut))
    calls = {}
    for delta in (delta for item in found for delta in item.tool_calls):
        known = calls.get(delta.index, ToolCall(delta.id, delta.name, ""))
        calls[delta.index] = ToolCall(known.id, known.name, known.arguments + delta.arguments)
    return "".join(item.reasoning for item in found), "".join(item.content for item in found), list(calls.values())


def cuts():
    generator = random.Random(5)
    return {"whole": lambda: 10**6, "single": lambda: 1, "random": lambda: generator.randint(1, 9)}


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("thinking", [True, False])
def test_tool_calls_come_back_with_types(chat_format, tokenizer, thinking, skip):
    """What the format writes for a call reads back as the same call: objects, strings, numbers, booleans, null."""
    message = {"role": "assistant", "content": "One é🌶️ moment.", "reasoning_content": "Hm.", "tool_calls": CALLS}
    text = answer_of_library(chat_format, message, thinking=thinking)
    for pieces in cuts().values():
        reasoning, content, calls = parse(
            chat_format, tokenizer, text, pieces, skip=skip, thinking=thinking, tools=TOOLS
        )
        assert (reasoning, content) == ("Hm." if thinking else "", "One é🌶️ moment.")
        assert [(call.id, call.name) for call in calls] == [("call-0", "find_place"), ("call-1", "now")]
        assert calls[0].parsed_arguments() == ARGUMENTS and calls[1].parsed_arguments() == {}


def test_without_tools_their_markup_is_content(chat_format, tokenizer):
    text = answer_of_library(chat_format, {"role": "assistant", "content": "", "tool_calls": CALLS}, thinking=False)
    for skip in (True, False):
        _, content, calls = parse(chat_format, tokenizer, text, lambda: 3, skip=skip, thinking=False)
        assert calls == [] and content.strip() == text.strip()


@pytest.mark.parametrize("skip", [True, False])
def test_reasoning_and_content(chat_format, tokenizer, skip):
    for name, pieces in cuts().items():
        for text, expected in (
            ("I see.</think>Oslo.", ("I see.", "Oslo.")),
            ("I see", ("I see", "")),
            ("</think>Oslo <b>", ("", "Oslo <b>")),
            ("a < b</think>", ("a < b", "")),
        ):
            found = parse(chat_format, tokenizer, text, pieces, skip=skip, thinking=True)
            assert found == (*expected, []), (name, text)
        assert parse(chat_format, tokenizer, "Oslo.", pieces, skip=skip, thinking=False) == ("", "Oslo.", [])


def test_continuations_start_where_the_prompt_ends(chat_format, tokenizer):
    parser_of = {"continue_final_message": True, "thinking": True}
    prompt = chat_format.render(TWO_TURNS[:2], ChatOptions(**parser_of))
    parser = ChatParser(prompt, tokenizer, skip_special_tokens=True, call_ids="call")
    pieces = parser.push(tokenizer.encode("\nYes."), "\nYes.")
    assert (pieces.reasoning, pieces.content + parser.finish(is_cut=False).content) == ("", "\nYes.")


def test_cut_answers_keep_what_is_there(chat_format, tokenizer):
    message = {"role": "assistant", "content": "Wait.", "reasoning_content": "Hm.", "tool_calls": CALLS}
    text = answer_of_library(chat_format, message)
    for length in range(0, len(text), 7):
        reasoning, content, calls = parse(
            chat_format, tokenizer, text[:length], lambda: 3, ended=False, is_cut=True, thinking=True, tools=TOOLS
        )
        assert "Hm.".startswith(reasoning[:3]) and all(call.name in ("find_place", "now") for call in calls)
        assert "Wait.".startswith(content[:5])
    with pytest.raises(ValueError):
        ToolCall("c", "f", '{"a": 1').parsed_arguments()
    with pytest.raises(ValueError, match="no JSON object"):
        ToolCall("c", "f", "[1]").parsed_arguments()


def test_text_may_lag_behind_or_stop_before_the_ids(chat_format, tokenizer):
    """A stop string holds text back and cuts it; markers keep their place in what is shown."""
    prompt = chat_format.render([USER], ChatOptions(thinking=True))
    ids = tokenizer.encode("I see.</think>Oslo STOP")
    parser = ChatParser(prompt, tokenizer, skip_special_tokens=True, call_ids="call")
    pieces = [parser.push(ids[:-2], "I s"), parser.push(ids[-2:], "ee.Oslo "), parser.finish(is_cut=False)]
    assert "".join(item.reasoning for item in pieces) == "I see."
    assert "".join(item.content for item in pieces) == "Oslo "


def test_json_output_is_the_bare_json(chat_format, tokenizer):
    fields = {"thinking": False, "response_format": {"type": "json_object"}}
    messages = [{"role": "user", "content": "JSON please"}]
    prompt = chat_format.render(messages, ChatOptions(**fields))
    text = 'Here: ```json\n{"a": 1}\n```'
    parser = ChatParser(prompt, tokenizer, skip_special_tokens=True, call_ids="call")
    content = parser.push(tokenizer.encode(text), text).content + parser.finish(is_cut=False).content
    assert json.loads(content) == {"a": 1}
