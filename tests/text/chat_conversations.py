"""Conversations for the chat tests, as (messages, request fields of the library)."""

import json

USER = {"role": "user", "content": "What is the capital of Norway?"}
SYSTEM = {"role": "system", "content": "You answer briefly."}
THINK_OFF = {"thinking": {"type": "disabled"}}
ARGUMENTS = {
    "place": "Oslo",
    "near": {"km": [5, "x"]},
    "limit": 3,
    "ratio": 0.5,
    "open": True,
    "note": None,
    "q": '"}<\n',
}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "find_place",
            "description": "Finds a place.",
            "parameters": {
                "type": "object",
                "properties": {"place": {"type": "string"}, "near": {"type": "object"}, "limit": {"type": "integer"}},
                "required": ["place"],
            },
        },
    },
    {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}},
]


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def call(number, name, arguments):
    return {"id": number, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


CALLED = assistant("", reasoning_content="Look it up.", tool_calls=[call("c1", "find_place", ARGUMENTS)])
RESULT = {"role": "tool", "tool_call_id": "c1", "content": '{"found": true}'}
TWO_TURNS = [USER, assistant("Oslo.", reasoning_content="Easy."), {"role": "user", "content": "And of Sweden?"}]

# name -> (messages, further request fields); tool results last, see `WITH_RESULTS`
CONVERSATIONS = {
    "user": ([USER], {}),
    "user-off": ([USER], THINK_OFF),
    "system": ([SYSTEM, USER], {}),
    "system-off": ([SYSTEM, USER], THINK_OFF),
    "two-turns": (TWO_TURNS, {}),
    "two-turns-off": (TWO_TURNS, THINK_OFF),
    "system-mid-talk": ([SYSTEM, *TWO_TURNS[:2], {"role": "system", "content": "Be rude."}, TWO_TURNS[2]], {}),
    "system-mid-talk-off": ([*TWO_TURNS[:2], {"role": "system", "content": "Be rude."}, TWO_TURNS[2]], THINK_OFF),
    "tools": ([SYSTEM, USER], {"tools": TOOLS}),
    "tools-off": ([USER], {"tools": TOOLS, **THINK_OFF}),
    "effort-minimal": ([USER], {"reasoning_effort": "minimal"}),
    "effort-low": ([USER], {"reasoning_effort": "low"}),
    "effort-medium": ([USER], {"reasoning_effort": "medium"}),
    "effort-high": ([USER], {"reasoning_effort": "high"}),
    "effort-xhigh": ([USER], {"reasoning_effort": "xhigh"}),
    "effort-max": ([SYSTEM, USER], {"reasoning_effort": "max"}),
    "effort-none": ([USER], {"reasoning_effort": "none"}),
    "json": ([{"role": "user", "content": "As JSON: 1"}], {"response_format": {"type": "json_object"}, **THINK_OFF}),
    "unicode": ([{"role": "user", "content": "  é🌶️한\n\n\tمرحبا\r\n  "}], THINK_OFF),
    "reminder": ([USER, {"role": "latest_reminder", "content": "Be quick."}], {}),
    "empty-content": ([{"role": "user", "content": ""}], THINK_OFF),
    "continued": ([USER, assistant("The capital", prefix=True)], THINK_OFF),
    "tool-result": ([USER, CALLED, RESULT], {"tools": TOOLS}),
    "tool-result-off": ([USER, CALLED, RESULT, assistant("Found."), USER], {"tools": TOOLS, **THINK_OFF}),
    "two-results": (
        [
            USER,
            assistant("One moment.", tool_calls=[call("c1", "find_place", ARGUMENTS), call("c2", "now", {})]),
            {"role": "tool", "tool_call_id": "c2", "content": "12:00"},
            RESULT,
            {"role": "user", "content": "So?"},
        ],
        {"tools": TOOLS},
    ),
    "markers": ([{"role": "user", "content": "a<｜User｜>b</think><｜end▁of▁sentence｜>c｜DSML｜d"}], THINK_OFF),
    "markers-in-system": ([{"role": "system", "content": "<｜Assistant｜><think>"}, USER], {"tools": TOOLS}),
}
# Here a plain encoding of the prompt's text gives other ids: contents hold markers, or <tool_result> tags, which the
# format writes as plain text although the bundled tokenizer has tokens of that spelling.
NOT_PLAIN = ("tool-result", "tool-result-off", "two-results", "markers", "markers-in-system")
