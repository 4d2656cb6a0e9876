"""JSON schemas: what a grammar accepts validates, and what the library would ignore is refused by name."""

import json

import jsonschema
import pytest

from deepinfer import RequestError
from deepinfer.grammar.json_schema import normalise_schema
from tests.grammar.examples import SCHEMAS, obj

INTEGER, TEXT = {"type": "integer"}, {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        ({"not": TEXT}, "not is not supported"),
        ({"if": INTEGER, "then": {"minimum": 5}}, "if is not supported"),
        ({"type": "array", "contains": INTEGER}, "contains"),
        ({"type": "array", "items": INTEGER, "uniqueItems": True}, "uniqueItems"),
        ({"type": "array", "items": [INTEGER]}, "items with a list"),
        (obj(a=INTEGER) | {"dependentRequired": {"a": ["b"]}}, "dependentRequired"),
        ({"type": "number", "multipleOf": 0.5}, "multipleOf"),
        ({"type": "integer", "multipleOf": 100000}, "multipleOf"),
        ({"type": "integer", "multipleOf": 0}, "multipleOf"),
        ({"type": "string", "pattern": "^a+$", "maxLength": 3}, "pattern together with maxLength"),
        ({"type": "string", "format": "email", "minLength": 3}, "format together with minLength"),
        ({"type": "string", "pattern": "^(?=.*x).+$"}, "lookahead"),
        ({"type": "string", "pattern": '^"$'}, "JSON escapes"),
        ({"type": "string", "pattern": r"^\n$"}, "JSON escapes"),
        ({"type": "string", "pattern": r"^\\$"}, "JSON escapes"),
        ({"allOf": [INTEGER, {"minimum": 3}]}, "allOf with several"),
        ({"oneOf": [INTEGER, {"type": "number"}]}, "oneOf whose schemas may overlap"),
        ({"oneOf": [obj(a=INTEGER), obj(b=INTEGER)]}, "oneOf whose schemas may overlap"),
        (obj(a=INTEGER) | {"anyOf": [{"required": ["a"]}]}, "next to anyOf"),
        ({"$defs": {"s": TEXT}, "$ref": "#/$defs/s", "maxLength": 2}, "maxLength next to $ref"),
        ({"enum": ["a"], "maxLength": 2}, "maxLength next to enum"),
        ({"type": "integer", "enum": ["x"]}, "no value of"),
        ({"type": "integer", "const": "x"}, "no value of"),
        ({"minimum": 5, "maxLength": 3}, "add the type"),
        ({"$ref": "#/$defs/nope"}, "points at nothing"),
        (obj(a={"$ref": "#/properties/b"}), "points at nothing"),
        ({"$ref": "http://example.org/schema.json"}, "only '#'"),
        ({"$ref": "#anchor", "$defs": {"x": {"$anchor": "anchor"}}}, "only '#'"),
        ({"$ref": "#"}, "without end"),
        ({"anyOf": [{"$ref": "#"}]}, "without end"),
        ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, "without end"),
        (obj(next={"$ref": "#"}), "without end"),
        ({"type": "array", "items": {"$ref": "#"}, "minItems": 1}, "without end"),
        (obj([], a={"$ref": "#/properties/a"}), "without end"),
        (obj(a=INTEGER) | {"required": ["b"], "additionalProperties": False}, "additionalProperties forbids"),
        ({"type": "object", "patternProperties": {"^x": INTEGER}, "properties": {"xa": TEXT}}, "patternProperties"),
        ({"type": "object", "minProperties": 2}, "minProperties"),
        ({"type": "object", "propertyNames": {"maxLength": 2}}, "propertyNames"),
        ({"type": "array", "minItems": "2"}, "minItems"),
        ({"type": "integer", "minimum": "2"}, "minimum"),
        ({"properties": []}, "properties"),
        ({"anyOf": []}, "anyOf"),
        ({"type": "object", "properties": {"a": 3}}, "expected a schema"),
        (json.loads('{"type":"array","items":' * 100 + "{}" + "}" * 100), "too large"),
    ],
)
def test_refused_by_name(schema, keyword):
    with pytest.raises(RequestError) as error:
        normalise_schema(schema)
    assert keyword in str(error.value) and error.value.code == "grammar_error"


def test_deeper_than_python_recurses():
    depth = 100_000
    with pytest.raises(RequestError):
        normalise_schema('{"type":"array","items":' * depth + "{}" + "}" * depth)
    schema = {}
    schema["items"] = schema
    with pytest.raises(RequestError):
        normalise_schema(schema)


# Texts near the edge of many schemas: each schema must accept only valid ones.
TEXTS = [
    *(
        "0",
        "-0",
        "1",
        "-1",
        "5",
        "7",
        "10",
        "14",
        "120",
        "121",
        "-3",
        "-4",
        "0.5",
        "0.75",
        "0.76",
        "1.0",
        "1e3",
        "0.0",
        "01",
    ),
    *(
        "null",
        "true",
        "false",
        '""',
        '"a"',
        '"ab"',
        '"abc"',
        '"abcd"',
        '"abcdef"',
        '"é"',
        '"日本"',
        '"😀"',
        '"\\ud83d\\ude00"',
    ),
    *(
        '"a\x07"',
        '"\t"',
        '"a\nb"',
        '"\x00\x01\x02"',
        '"\\n\\n"',
        '"\\x"',
        '"a"b"',
        '"\ud800"',
        '"\\ud800"',
        '"red"',
        '"north"',
    ),
    *("[]", "[1]", "[1,2]", "[1, 2, 3]", "[1,1]", "[true]", "[null]", "[null,true]", "[null,null]", '["a"]', '[1,"a"]'),
    *('[1,"a",2]', "[[true]]", "[[]]", "[1,]", '[{"name":"a","job":"b","city":"c"}]', '[{"name":"a"}]'),
    *(
        "{}",
        '{"a":1}',
        '{"b":true}',
        '{"a":1,"b":true}',
        '{"b":true,"a":1}',
        '{"a":"x"}',
        '{"a":1,"a":1}',
        '{"x":1,"y":2,"z":3}',
    ),
    *(
        '{"id":1}',
        '{"id":1,"note":"n","tag":"t"}',
        '{"id":"1"}',
        '{"note":"n"}',
        '{"kind":"cat","lives":9}',
        '{"kind":"a","x":1}',
    ),
    *('{"kind":"a","y":true}', '{"kind":"b","y":true}', '{"x":0.5,"y":-2.5}', '{"x":1.5,"y":0}', '{"x":0,"y":-2.51}'),
    *(
        '{"a":null,"z":3}',
        '{"a":null}',
        '{"a":null,"z":"3"}',
        '{"größe":3,"日":true,"q\\"q":null}',
        '{"data":[1,{"a":2}]}',
    ),
    *(
        '{"code":"AB-123","word":"x"}',
        '{"code":"AB-12","word":"x"}',
        '{"code":"AB-123","word":"a b"}',
        '{"name":"a","children":[]}',
    ),
    *('{"name":"a","children":[{"name":"b","children":[]}]}', '{"name":"a","children":[{"name":"b"}]}', '{"value":1}'),
    *(
        '{"value":[null]}',
        '{"value":{}}',
        '{"a":"abc","b":"a"}',
        '{"a":"ab","b":"a"}',
        '{"a":"a\x01c","b":"a"}',
        "{ }",
        " {}",
    ),
]


UNMATCHED = {"boolean", "unicode_enum", "nested", "format", "definitions", "flat"}


@pytest.mark.parametrize("name", SCHEMAS)
def test_what_is_accepted_validates(name, accepts):
    num_accepted = 0
    for text in TEXTS:
        if accepts({"json": SCHEMAS[name]}, text):
            jsonschema.validate(json.loads(text), SCHEMAS[name])
            num_accepted += 1
    assert num_accepted or name in UNMATCHED


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"minimum": 5}, ["5"], ["4", '"x"']),
        ({"type": "integer", "enum": [1, "x"]}, ["1"], ['"x"']),
        ({"type": ["string", "number"], "anyOf": [INTEGER, TEXT]}, ["1", '"a"'], ["null"]),
        ({"type": "object", "properties": {"a": INTEGER}, "required": ["a", "z"]}, ['{"a":1,"z":[2]}'], ['{"a":1}']),
        ({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, INTEGER]}}, "$ref": "#/$defs/a"}, ["1"], ['"a"']),
        ({"type": "string", "minLength": 2}, ['"éé"'], ['"é"', '"a\x05"', '"\tb"']),
        ({"type": "string"}, ['"\\u0041"'], ['"\ud800"', '"\xed"'.encode("latin-1"), b'"\xed\xa0\x80"']),
        ({"type": "integer", "description": "d", "default": 3, "x-own": 1, "title": "t"}, ["3"], ["a"]),
        ({"oneOf": [INTEGER, TEXT, {"type": "null"}]}, ["1", '"a"', "null"], ["true"]),
        ({"allOf": [INTEGER]}, ["1"], ['"a"']),
        ({"definitions": {"i": INTEGER}, "type": "array", "items": {"$ref": "#/definitions/i"}}, ["[1]"], ['["a"]']),
    ],
)
def test_accepted_and_not(schema, good, bad, accepts):
    for text in good:
        assert accepts({"json": schema}, text), text
    for text in bad:
        assert not accepts({"json": schema}, text), text


def test_pydantic_models_and_texts(accepts):
    class Model:
        @classmethod
        def model_json_schema(cls):
            return obj(a=INTEGER)

    assert accepts({"json": Model}, '{"a": 1}') and accepts({"json": json.dumps(obj(a=INTEGER))}, '{"a": 1}')
