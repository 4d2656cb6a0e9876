"""What `structured_outputs` may hold, and the errors of what it may not."""

from types import SimpleNamespace

import pytest

from deepinfer import RequestError, SamplingParams
from deepinfer.grammar.constraint import parse_constraint

BOOLEAN = {"type": "boolean"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("", "expected a mapping"),
        (False, "expected a mapping"),
        ([], "expected a mapping"),
        ({}, "exactly one of"),
        ({"json": ""}, "json=''"),
        ({"json": {}}, "json={}"),
        ({"json": False}, "json=False"),
        ({"json": 3}, "json=3"),
        ({"json": "{"}, "no valid JSON"),
        ({"json": "[1]"}, "that is an object"),
        ({"json": {"const": float("nan")}}, "no valid JSON"),
        ({"json": '{"const": "\\ud800"}'}, "no valid JSON"),
        ({"json_object": False}, "json_object=False"),
        ({"regex": ""}, "regex=''"),
        ({"regex": None}, "exactly one of"),
        ({"regex": "\ud800"}, "no valid Unicode"),
        ({"choice": []}, "choice=[]"),
        ({"choice": "yes"}, "choice='yes'"),
        ({"choice": ["a", ""]}, "none of them empty"),
        ({"choice": [1]}, "choice=[1]"),
        ({"grammar": ""}, "grammar=''"),
        ({"json": BOOLEAN, "regex": "a"}, "json and regex"),
        ({"json_object": False, "regex": "a"}, "json_object and regex"),
        ({"json": BOOLEAN, "whitespace_limit": -1}, "whitespace_limit=-1"),
        ({"json": BOOLEAN, "whitespace_limit": True}, "whitespace_limit=True"),
        ({"jason": BOOLEAN}, "unknown key 'jason'"),
        ({"schema_type": "lark", "schema": "a"}, "schema_type='lark'"),
        ({"schema_type": "json"}, "no schema"),
        ({"schema": "a"}, "schema_type=None"),
        ({"schema_type": "regex", "schema": "a", "serialized": "x"}, "serialized"),
        ({"schema_type": "regex", "schema": "a", "bound_token_ids": [1]}, "bound_token_ids"),
        ({"schema_type": "regex", "schema": "a", "trigger_token_ids": [-1]}, "trigger_token_ids has -1"),
        ({"schema_type": "regex", "schema": "a", "trigger_token_ids": [300]}, "from 0 to 258"),
        ({"schema_type": "regex", "schema": "a", "trigger_token_ids": [1.0]}, "trigger_token_ids has 1.0"),
        ({"schema_type": "regex", "schema": "a", "trigger_token_ids": 3}, "trigger_token_ids=3"),
        ({"schema_type": "regex", "schema": "a", "bound_token_id": 0}, "needs trigger_token_ids"),
        ({"schema_type": "regex", "schema": "a", "trigger_token_ids": [1], "bound_token_id": True}, "bound_token_id"),
    ],
)
def test_wrong_constraints(given, message):
    SamplingParams(structured_outputs=given)  # a wrong grammar is the request's error, not the constructor's
    with pytest.raises(RequestError) as error:
        parse_constraint(given, 259)
    assert error.value.code == "grammar_error" and message in str(error.value)


def test_forms_that_mean_the_same():
    plain = parse_constraint({"json": BOOLEAN}, 259)
    assert plain == parse_constraint({"json": '{"type": "boolean"}'}, 259)
    assert plain == parse_constraint({"schema_type": "json", "schema": '{"type":"boolean"}'}, 259)
    assert plain == parse_constraint(SimpleNamespace(json=BOOLEAN, regex=None), 259)
    assert plain.key == parse_constraint({"json": BOOLEAN, "trigger_token_ids": [1]}, 259).key
    ebnf = parse_constraint({"schema_type": "ebnf", "schema": 'root ::= "a"'}, 259)
    assert ebnf == parse_constraint({"grammar": 'root ::= "a"'}, 259) == parse_constraint({"ebnf": 'root ::= "a"'}, 259)
    params = SamplingParams(
        so_args={"schema_type": "regex", "schema": "a+", "trigger_token_ids": [3], "bound_token_id": 0}
    )
    constraint = parse_constraint(params.structured_outputs, 259)
    assert (constraint.kind, constraint.trigger_token_ids, constraint.bound_token_id) == ("regex", (3,), 0)
    assert SamplingParams(**params.to_dict()) == params


def test_choices_are_taken_literally(accepts):
    choices = ["yes", 'a"b\\c', "new\nline", "日本 😀", "[a-z]", "\x07"]
    for choice in choices:
        assert accepts({"choice": choices}, choice)
    assert not accepts({"choice": choices}, "x") and not accepts({"choice": choices}, "ye")


def test_whitespace_limit(accepts):
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    for limit in (0, 1, 8):
        given = {"json": schema, "whitespace_limit": limit}
        assert accepts(given, '{"a":1}')
        assert accepts(given, "{" + " " * limit + '"a":1}')
        assert not accepts(given, "{" + " " * (limit + 1) + '"a":1}')
    assert not accepts({"json": schema}, "{" + "\n" * 9 + '"a":1}') and accepts(
        {"json": schema}, "{" + "\n" * 8 + '"a":1}'
    )
    assert not accepts({"json_object": True}, '{"a":{"b":[1,' + " " * 9 + "2]}}")
