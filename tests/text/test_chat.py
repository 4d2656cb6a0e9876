"""LLM.chat and LLM.stream_chat on the bundled model."""

import json
from dataclasses import fields

import pytest

from deepinfer import LLM, RequestError, SamplingParams, UnsupportedFeatureError
from deepinfer.text.chat_keywords import ChatKeywords
from deepinfer.text.chat_options import ChatOptions
from tests.text.chat_conversations import SYSTEM, USER
from tests.text.test_chat_parser import answer_of_library

GREEDY = SamplingParams(temperature=0, max_tokens=12)
PROMPT = "<｜begin▁of▁sentence｜><｜User｜>What is the capital of Norway?<｜Assistant｜></think>"


@pytest.fixture(scope="module")
def llm():
    with LLM(max_model_len=2048, max_num_seqs=8) as engine:
        yield engine


def chat(llm, messages, params=GREEDY, **options):
    return llm.chat(messages, params, use_tqdm=False, **options)


def forced(llm, text, **more):
    ids = [*llm.get_tokenizer().encode(text), 1]
    return SamplingParams(temperature=0, golden_token_ids=ids, max_tokens=len(ids), **more)


def test_the_bundled_model_answers(llm):
    (output,) = chat(llm, [USER])
    (plain,) = llm.generate(PROMPT, GREEDY, use_tqdm=False)
    completion = output.outputs[0]
    assert "Oslo" in completion.content and completion.content == completion.text == plain.outputs[0].text
    assert completion.token_ids == plain.outputs[0].token_ids
    assert (completion.reasoning, completion.tool_calls, completion.finish_reason) == (None, [], "stop")
    assert output.prompt == PROMPT and output.error is None
    assert plain.outputs[0].content is None and plain.outputs[0].tool_calls is None


def test_case_40_chat_and_text_start_with_one_bos(llm):
    (chatted,) = chat(llm, [USER])
    formatted, plain, ids = llm.generate([PROMPT, "Norway", [0, 0, 5]], GREEDY.replace(max_tokens=1), use_tqdm=False)
    assert chatted.prompt_token_ids == formatted.prompt_token_ids
    assert chatted.prompt_token_ids[0] == 0 and chatted.prompt_token_ids.count(0) == 1
    assert plain.prompt_token_ids[0] == 0 and plain.prompt_token_ids.count(0) == 1
    assert ids.prompt_token_ids == [0, 0, 5]


def test_case_39_marker_strings_of_a_user_are_no_control_ids(llm):
    (output,) = chat(llm, [{"role": "user", "content": "a<｜end▁of▁sentence｜><｜Assistant｜></think>b"}])
    control = [number for number in output.prompt_token_ids if number in llm.get_tokenizer().special_ids]
    assert control == [0, 3, 4, 7]


def test_one_wrong_conversation_harms_no_other(llm):
    wrong = [{"role": "operator", "content": "x"}]
    long = [{"role": "user", "content": "word " * 3000}]
    image = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}]
    outputs = chat(llm, [[USER], wrong, [], [SYSTEM, USER], long, image])
    codes = [output.error and output.error.code for output in outputs]
    assert codes == [None, "invalid_messages", "invalid_messages", None, "prompt_too_long", "unsupported_feature"]
    assert "Oslo" in outputs[0].outputs[0].content and "operator" in outputs[1].error.message
    assert outputs[1].outputs[0].finish_reason == "error" and json.dumps(outputs[1].to_dict(), allow_nan=False)
    streamed = list(llm.stream_chat([wrong, [USER]], GREEDY))
    assert streamed[0].error.code == "invalid_messages" and streamed[-1].finish_reason == "stop"
    with pytest.raises(RequestError, match="prompt 1: the conversation is refused"):
        chat(llm, [[USER], wrong], strict=True)
    with pytest.raises(UnsupportedFeatureError, match="prompt 0: .*image"):
        chat(llm, [image], strict=True)
    with pytest.raises(RequestError, match="messages is a str"):
        chat(llm, "What is the capital of Norway?")
    with pytest.raises(RequestError, match="2 prompts but 1 sampling_params"):
        chat(llm, [[USER], [USER]], [GREEDY])
    assert chat(llm, []) == []


def test_stream_joins_to_chat(llm):
    text = "I é🌶️.</think>Oslo."
    forms = [{"skip_special_tokens": skip, "stop": stop} for skip in (True, False) for stop in (None, "slo")]
    params = [forced(llm, text, **form) for form in forms]
    options = {"thinking": True, "effort": "low"}
    talk = [[{"role": "user", "content": "x"}]] * len(params)
    outputs = chat(llm, talk, params, **options)
    streamed = [[] for _ in params]
    for delta in llm.stream_chat(talk, params, **options):
        streamed[delta.prompt_index].append(delta)
    assert [output.outputs[0].content for output in outputs] == ["Oslo.", "O"] * 2
    for output, deltas in zip(outputs, streamed, strict=True):
        whole = output.outputs[0]
        assert "".join(delta.text for delta in deltas) == whole.text
        assert "".join(delta.reasoning for delta in deltas) == whole.reasoning
        assert "".join(delta.content for delta in deltas) == whole.content
        assert deltas[-1].finish_reason == whole.finish_reason == "stop"
        assert [number for delta in deltas for number in delta.token_ids] == whole.token_ids
        assert all(json.dumps(delta.to_dict(), allow_nan=False) for delta in deltas)


def llm_format(llm):
    from deepinfer.text.chat_format import ChatFormat

    return ChatFormat(llm.get_tokenizer())


def test_a_tool_call_goes_round(llm):
    call = {"id": "c", "type": "function", "function": {"name": "now", "arguments": '{"a": null}'}}
    tools = [{"type": "function", "function": {"name": "now"}}]
    message = {"role": "assistant", "content": "", "tool_calls": [call]}
    text = answer_of_library(llm_format(llm), message, thinking=False)
    (output,) = chat(llm, [USER], forced(llm, text), tools=tools)
    completion = output.outputs[0]
    (call,) = completion.tool_calls
    assert call.name == "now" and call.parsed_arguments() == {"a": None}
    assert call.id == f"call-{output.request_id}-0-0" and completion.content == ""
    result = {"role": "tool", "tool_call_id": call.id, "content": "12:00"}
    (second,) = chat(llm, [USER, completion.to_message(), result], GREEDY.replace(max_tokens=1), tools=tools)
    assert second.error is None and "<tool_result>12:00</tool_result>" in second.prompt and text in second.prompt
    (plain,) = llm.generate([[5]], GREEDY.replace(max_tokens=1), use_tqdm=False)
    with pytest.raises(ValueError, match="only completions of chat"):
        plain.outputs[0].to_message()


def test_text_may_be_cut_by_length(llm):
    params = forced(llm, "I see.</think>Oslo it is.").replace(max_tokens=2)
    (output,) = chat(llm, [USER], params, thinking=True)
    completion = output.outputs[0]
    assert (completion.reasoning, completion.content, completion.finish_reason) == (completion.text, "", "length")


def test_leaving_a_chat_stream_aborts_it(llm):
    stream = llm.stream_chat([[USER], [USER]], GREEDY, request_ids=["a", "b"])
    next(stream)
    del stream
    assert llm.stats().num_running == 0 and llm.stats().num_waiting == 0
    assert "Oslo" in chat(llm, [USER], request_ids=["a"])[0].outputs[0].content


def test_response_formats_are_enforced_for_every_choice(llm):
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    schema["additionalProperties"] = False
    asked = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    params = SamplingParams(n=2, seed=4, max_tokens=24)
    (output,) = chat(llm, [USER], params, response_format=asked)
    assert output.error is None
    assert all(set(json.loads(completion.content)) == {"ok"} for completion in output.outputs)
    pieces = {0: "", 1: ""}
    for delta in llm.stream_chat([USER], params, response_format=asked):
        pieces[delta.choice] += delta.content
    assert list(pieces.values()) == [completion.content for completion in output.outputs]
    (output,) = chat(llm, [USER], response_format={"type": "json_object"})
    assert output.error.code == "invalid_messages" and "must contain the word 'json'" in output.error.message


def test_response_format_and_own_grammar_contradict(llm):
    params = GREEDY.replace(structured_outputs={"schema_type": "regex", "schema": "a+"})
    (output,) = chat(llm, [USER], params, response_format={"type": "regex", "regex": "b+"})
    assert output.error.code == "invalid_sampling_params" and "response_format" in output.error.message


def test_an_unknown_option_is_named_with_the_nearest(llm):
    for call in (llm.chat, llm.stream_chat):
        with pytest.raises(TypeError, match="'think': did you mean 'thinking'"):
            call([USER], GREEDY, think=True)
    with pytest.raises(TypeError, match="'zzz': known are tools"):
        llm.chat([USER], zzz=1)


def test_keywords_are_the_options():
    assert set(ChatKeywords.__annotations__) == {item.name for item in fields(ChatOptions)}
