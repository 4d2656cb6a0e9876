"""Whatever finishes under a grammar is valid, judged by libraries that know nothing of ours."""

import json
import re

import jsonschema
import pytest

from deepinfer import LLM, SamplingParams
from tests.grammar.examples import GRAMMARS, REGEXES, SCHEMAS

PROMPT = (
    "<｜begin▁of▁sentence｜><｜User｜>Extract name, job and city as JSON: Vera works as a pilot in Porto."
    "<｜Assistant｜></think>"
)
CONSTRAINTS = (
    [("json", name, {"json": schema}) for name, schema in SCHEMAS.items()]
    + [("regex", name, {"regex": pattern}) for name, pattern in REGEXES.items()]
    + [("grammar", name, {"grammar": grammar}) for name, (grammar, _) in GRAMMARS.items()]
)
SAMPLE = {"recursive", "unicode_keys", "undeclared_required", "empty_alternative", "brackets"}


def check(kind, name, text):
    """Raises when a text is not a value of the example."""
    if kind == "json":
        jsonschema.validate(json.loads(text), SCHEMAS[name])
    elif kind == "regex":
        assert re.fullmatch(REGEXES[name], text), (name, text)
    else:
        assert GRAMMARS[name][1](text), (name, text)


def run(llm, constraints, seeds, **params):
    """Number of finished and of cut outputs; every finished one is checked."""
    jobs = [(kind, name, given, seed) for kind, name, given in constraints for seed in seeds]
    all_params = [
        SamplingParams(structured_outputs=given, seed=seed, skip_special_tokens=False, **params)
        for _, _, given, seed in jobs
    ]
    num_finished = num_cut = 0
    for (kind, name, _, _), output in zip(
        jobs, llm.generate([PROMPT] * len(jobs), all_params, use_tqdm=False), strict=True
    ):
        completion = output.outputs[0]
        assert output.error is None, (name, output.error)
        if completion.finish_reason == "stop":
            assert completion.grammar_complete is True
            check(kind, name, completion.text.removesuffix("<｜end▁of▁sentence｜>"))
            num_finished += 1
        else:
            assert completion.finish_reason == "length"
            num_cut += 1
    return num_finished, num_cut


def test_enough_examples():
    assert len(SCHEMAS) >= 30 and len(REGEXES) >= 10 and len(GRAMMARS) >= 5


def test_finished_outputs_are_valid_sample(structured_llm):
    sample = [item for item in CONSTRAINTS if item[1] in SAMPLE]
    num_finished, _ = run(structured_llm, sample, [0], temperature=0.7, max_tokens=60)
    assert num_finished >= 3


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.7, 1.5])
def test_finished_outputs_are_valid_on_the_bundled_model(temperature):
    with LLM() as llm:
        num_finished, num_cut = run(llm, CONSTRAINTS, range(5), temperature=temperature, max_tokens=160)
    print(f"finished {num_finished}, cut {num_cut}")
    assert num_finished > 0.8 * (num_finished + num_cut)


@pytest.mark.slow
def test_finished_outputs_are_valid_on_a_random_model(random_model):
    with LLM(random_model, numerics="fp32", max_model_len=512) as llm:
        num_finished, num_cut = run(llm, CONSTRAINTS, range(3), temperature=1.0, max_tokens=400)
    print(f"finished {num_finished}, cut {num_cut}")
    assert num_finished > 0.5 * (num_finished + num_cut)
