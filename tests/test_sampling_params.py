"""SamplingParams: fields, aliases, ranges, copies."""

import copy
import pickle
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from deepinfer.errors import DeepInferError, RequestError
from deepinfer.sampling_params import SamplingParams


def test_defaults_are_the_documented_ones():
    params = SamplingParams()
    assert (params.n, params.temperature, params.top_p, params.top_k, params.min_p) == (1, 1.0, 1.0, -1, 0.0)
    assert (params.max_tokens, params.min_tokens, params.seed, params.logprobs) == (16, 0, None, None)
    assert params.stop == () and params.allowed_token_ids is None and params.logprobs_mode == "raw"
    assert repr(params) == "SamplingParams()"


def test_repr_shows_only_what_differs():
    assert repr(SamplingParams(temperature=0, stop="x")) == "SamplingParams(temperature=0.0, stop=['x'])"


@pytest.mark.parametrize(
    ("alias", "name", "value"),
    [
        ("seq_seed", "seed", 7),
        ("top_logprobs", "logprobs", 3),
        ("so_args", "structured_outputs", {"schema_type": "json"}),
    ],
)
def test_aliases(alias, name, value):
    assert getattr(SamplingParams(**{alias: value}), name) == value
    with pytest.raises(TypeError, match="alias"):
        SamplingParams(**{alias: value, name: value})


def test_unknown_name_gets_the_nearest_one():
    with pytest.raises(TypeError, match=r"'temprature'.*'temperature'"):
        SamplingParams(temprature=1.0)
    with pytest.raises(TypeError, match="max_tokens"):
        SamplingParams(max_token=1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n", 0),
        ("n", True),
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("temperature", float("inf")),
        ("temperature", "1"),
        ("top_p", 0.0),
        ("top_p", 1.01),
        ("top_k", -2),
        ("top_k", 1.5),
        ("min_p", 1.1),
        ("presence_penalty", 2.1),
        ("frequency_penalty", -2.1),
        ("repetition_penalty", 0.0),
        ("seed", 1.5),
        ("max_tokens", -1),
        ("min_tokens", -1),
        ("stop", [""]),
        ("stop", [1]),
        ("stop_token_ids", [-1]),
        ("stop_token_ids", "12"),
        ("ignore_eos", 1),
        ("logprobs", -2),
        ("prompt_logprobs", 0.5),
        ("logprobs_mode", "scaled"),
        ("logit_bias", {0: 101.0}),
        ("logit_bias", [1]),
        ("allowed_token_ids", []),
        ("bad_words", [""]),
        ("first_n_token_no_eos", -1),
        ("golden_token_ids", [-2]),
        ("logits_processors", [1]),
        ("logits_processors", "x"),
    ],
)
def test_wrong_values_name_field_and_value(name, value):
    with pytest.raises(RequestError) as error:
        SamplingParams(**{name: value})
    assert isinstance(error.value, ValueError) and isinstance(error.value, DeepInferError)
    offender = repr(value).strip("[]{}").split(": ")[-1]  # of a list, the item that is wrong
    assert name in str(error.value) and offender in str(error.value) and "must be" in str(error.value)


NUMBERS = ("temperature", "top_p", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty")
INTEGERS = ("n", "top_k", "max_tokens", "min_tokens", "logprobs", "prompt_logprobs", "first_n_token_no_eos")


@pytest.mark.parametrize(
    "value",
    [10**400, -(10**5000), Fraction(10**400), float("inf"), Decimal(1), 1j, "1", []],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_that_no_float_can_hold(name, value):
    with pytest.raises(RequestError, match=f"^{name}=.* must be") as error:
        SamplingParams(**{name: value})
    assert len(str(error.value)) < 500


@pytest.mark.parametrize("value", [2**31, 10**5000, -(10**5000), 1.0, "1"], ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("name", INTEGERS)
def test_integers_beyond_32_bits(name, value):
    with pytest.raises(RequestError, match=f"^{name}=.* must be"):
        SamplingParams(**{name: value})
    for ids in ("stop_token_ids", "allowed_token_ids", "golden_token_ids"):
        with pytest.raises(RequestError, match=f"^{ids}=.* must be"):
            SamplingParams(**{ids: [value]})


@pytest.mark.parametrize(
    "bias", [{5: 1, "5": 2}, {"5": 1, "05": 1}, {"9" * 5000: 1}, {"٥": 1}, {2**31: 1}, {5: 10**400}]
)
def test_logit_bias_names_each_id_once(bias):
    with pytest.raises(RequestError, match="^logit_bias=.*each id once"):
        SamplingParams(logit_bias=bias)


class _Asked:
    def __init__(self):
        self.json = {"type": "object", "properties": {"a": {"enum": [1]}}}


def test_nothing_inside_can_be_changed():
    schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}}
    given = {"stop": ["a"], "bad_words": ["b"], "logit_bias": {1: 2.0}, "allowed_token_ids": [1, 2]}
    params = SamplingParams(**given, structured_outputs={"json": schema})
    before = copy.deepcopy(params.to_dict())
    for change in (
        lambda: params.logit_bias.update({3: 1.0}),
        lambda: params.logit_bias.__setitem__(1, 5.0),
        lambda: params.stop.append("x"),
        lambda: params.structured_outputs.update(json="x"),
        lambda: params.structured_outputs["json"]["properties"].clear(),
        lambda: params.structured_outputs["json"]["properties"]["a"]["enum"].append(3),
    ):
        with pytest.raises((AttributeError, TypeError)):
            change()
    schema["properties"]["a"]["enum"].append(3)
    for value in given.values():
        value.clear()
    plain = params.to_dict()
    assert plain == before and plain["structured_outputs"]["json"]["properties"]["a"]["enum"] == [1, 2]
    plain["structured_outputs"]["json"].clear()
    plain["logit_bias"].clear()
    assert params.to_dict() == before and SamplingParams(**before) == params
    assert pickle.loads(pickle.dumps(params)) == params == copy.deepcopy(params) == params.replace()


def test_objects_that_ask_for_a_grammar_are_copied():
    asked = _Asked()
    params = SamplingParams(structured_outputs=asked)
    asked.json["properties"]["a"]["enum"].append(2)
    del asked.json
    assert params.to_dict()["structured_outputs"] == {"json": {"type": "object", "properties": {"a": {"enum": [1]}}}}
    loop = {}
    loop["json"] = loop
    assert SamplingParams(structured_outputs=loop).structured_outputs is loop


def test_limits_themselves_are_fine():
    SamplingParams(
        temperature=0, top_p=1.0, top_k=1, min_p=1.0, presence_penalty=-2, frequency_penalty=2, min_tokens=16
    )
    assert SamplingParams(top_k=0).top_k == -1
    assert SamplingParams(max_tokens=None, min_tokens=99).max_tokens is None
    assert SamplingParams(max_tokens=0).max_tokens == 0
    with pytest.raises(RequestError, match="max_tokens=16"):
        SamplingParams(min_tokens=17)


def test_values_are_normalised():
    params = SamplingParams(
        seed=-1, stop="a", stop_token_ids=np.array([3]), logit_bias={"5": 1}, logprobs=True, top_k=np.int64(4)
    )
    assert params.seed == 2**64 - 1 and params.stop == ("a",) and params.stop_token_ids == (3,)
    assert params.logit_bias == {5: 1.0} and params.logprobs == 0 and params.top_k == 4
    assert SamplingParams(prompt_logprobs=False).prompt_logprobs is None


@pytest.mark.parametrize(("temperature", "greedy"), [(0, True), (9.9e-6, True), (1e-5, False), (1, False)])
def test_greedy_is_a_temperature_below_1e_5(temperature, greedy):
    assert SamplingParams(temperature=temperature).greedy is greedy


def test_immutable_and_replace():
    params = SamplingParams(seed=1, bad_words=["x"])
    with pytest.raises(AttributeError, match="replace"):
        params.seed = 2
    with pytest.raises(AttributeError):
        params.no_such_field = 2
    changed = params.replace(seq_seed=2)
    assert (params.seed, changed.seed, changed.bad_words) == (1, 2, ("x",))
    with pytest.raises(RequestError):
        params.replace(top_p=2)


def test_copies_are_equal():
    params = SamplingParams(temperature=0.5, stop=["a"], logit_bias={1: 2.0}, bad_words="x")
    for twin in (copy.copy(params), copy.deepcopy(params), pickle.loads(pickle.dumps(params))):
        assert twin == params
    assert SamplingParams(**params.to_dict()).replace() != params.replace(temperature=0.6)


def test_check_token_ids():
    SamplingParams(allowed_token_ids=[9], golden_token_ids=[-1, 9]).check_token_ids(10)
    for name, value in [("allowed_token_ids", [10]), ("logit_bias", {10: 1.0}), ("golden_token_ids", [10])]:
        with pytest.raises(RequestError, match=rf"{name} has the token id 10"):
            SamplingParams(**{name: value}).check_token_ids(10)


def test_import_needs_no_torch():
    code = "import sys, deepinfer.sampling_params, deepinfer.outputs; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
