"""Case 26: nothing a user can write takes the process down. Each run is a process of its own."""

import subprocess
import sys

SCRIPT = """
import json, sys
import jsonschema
from deepinfer import LLM, SamplingParams

NODE = {"$defs": {"node": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 6},
        "children": {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 2}},
        "required": ["name", "children"]}}, "$ref": "#/$defs/node"}
GIVEN = [
    {"json": NODE}, {"json": NODE}, {"regex": "(a|)b"},
    {"json": {"$ref": "#"}}, {"regex": "^(?=.*x).+$"}, {"json": {"$ref": "#/$defs/nope"}},
    {"json": {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}},
    {"json": {"anyOf": [{"$ref": "#"}]}},
    {"json": {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}},
    {"json": '{"type":"array","items":' * 50000 + "{}" + "}" * 50000}, {"regex": "(" * 50000 + "a" + ")" * 50000},
    {"grammar": "root ::= root"}, {"grammar": "root ::= x\\nx ::= root"}, {"grammar": "root ::= " + "(" * 50000},
    {"grammar": ""}, {"grammar": "\\x00"}, {"regex": "("}, {"json": "{"}, {"choice": []},
]
with LLM(sys.argv[1], numerics="fp32", max_model_len=512) as llm:
    params = [SamplingParams(structured_outputs=item, max_tokens=200, seed=place) for place, item in enumerate(GIVEN)]
    outputs = llm.generate([[5, 6, 7]] * len(GIVEN), params, use_tqdm=False)
    for place, output in enumerate(outputs[:2]):
        completion = output.outputs[0]
        assert output.error is None
        assert completion.finish_reason in ("stop", "length")
        if completion.finish_reason == "stop":
            jsonschema.validate(json.loads(completion.text), NODE)
        else:
            assert completion.text.startswith("{") and not completion.grammar_complete
    assert outputs[2].outputs[0].text in ("ab", "b"), outputs[2]
    for item, output in zip(GIVEN[3:], outputs[3:]):
        assert output.error is not None and output.error.code == "grammar_error", (str(item)[:80], output)
    assert "without end" in outputs[3].error.message
    assert "lookahead" in outputs[4].error.message
    assert "points at nothing" in outputs[5].error.message
    again = llm.generate([[5]], SamplingParams(structured_outputs={"choice": ["x"]}, seed=1), use_tqdm=False)
    assert again[0].outputs[0].text == "x"
print("alive")
"""


def test_case_26_recursion_and_lookaround(random_model):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(random_model)], capture_output=True, text=True, timeout=200
    )
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr[-2000:]


def test_a_process_with_a_stuck_compile_thread_ends():
    script = """
from deepinfer.config.grammar_config import GrammarConfig
from deepinfer.core.constraint import Constraint
from deepinfer.grammar.compiler import GrammarCompiler
import threading
compiler = GrammarCompiler(GrammarConfig(), [b"a"], [], lambda constraint: threading.Event().wait())
compiler.submit(Constraint("regex", "a"))
"""
    assert subprocess.run([sys.executable, "-c", script], timeout=60).returncode == 0
