"""Schemas, regular expressions and grammars that the validity tests generate with."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final


def obj(required: list[str] | None = None, /, **properties: Any) -> dict[str, Any]:
    """An object schema; every property is required unless `required` names them."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
    }


_TEXT = {"type": "string", "maxLength": 12}
_NODE = obj(name=_TEXT, children={"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 2})
_PERSON = obj(name=_TEXT, job=_TEXT, city=_TEXT)

SCHEMAS: Final[dict[str, dict[str, Any]]] = {
    "flat": _PERSON,
    "integer": {"type": "integer"},
    "range": {"type": "integer", "minimum": -3, "maximum": 120},
    "open_range": {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10},
    "number_range": obj(x={"type": "number", "minimum": 0, "maximum": 1}, y={"type": "number", "minimum": -2.5}),
    "half_open_number": {"type": "number", "exclusiveMinimum": 0, "maximum": 0.75},
    "multiple": {"type": "integer", "multipleOf": 7, "minimum": 10, "maximum": 300},
    "boolean": obj(yes={"type": "boolean"}, no={"type": "boolean"}),
    "null_or_text": {"type": ["string", "null"], "maxLength": 5},
    "enum": {"enum": ["red", "green", 3, 1.5, None, True]},
    "enum_typed": {"type": "string", "enum": ["north", "south", 4]},
    "const": obj(kind={"const": "cat"}, lives={"const": 9}),
    "unicode_enum": {"enum": ["é", "日本", "Ünïcode", "😀", 'a"b\\c', "tab\there"]},
    "unicode_keys": obj(
        **{"größe": {"type": "integer", "maximum": 300}, "日": {"type": "boolean"}, 'q"q': {"type": "null"}}
    ),
    "nested": obj(a=obj(b=obj(c={"type": "integer", "minimum": 0, "maximum": 9}), d=_TEXT)),
    "array": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 99}, "minItems": 2, "maxItems": 4},
    "array_of_objects": {"type": "array", "items": _PERSON, "minItems": 1, "maxItems": 2},
    "array_of_arrays": {
        "type": "array",
        "items": {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 2},
        "maxItems": 3,
    },
    "tuple": {"type": "array", "prefixItems": [{"type": "integer"}, _TEXT], "items": False, "minItems": 2},
    "tuple_and_more": {
        "type": "array",
        "prefixItems": [{"type": "null"}],
        "items": {"type": "boolean"},
        "minItems": 2,
        "maxItems": 4,
    },
    "optional": obj(["id"], id={"type": "integer"}, note=_TEXT, tag=_TEXT),
    "all_optional": obj([], a={"type": "integer"}, b={"type": "boolean"}, c=_TEXT),
    "at_least_one": obj([], a={"type": "integer"}, b={"type": "boolean"}) | {"minProperties": 1},
    "undeclared_required": {"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a", "z"]}
    | {"additionalProperties": {"type": "integer"}},
    "map": {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 2},
    "pattern": obj(
        code={"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"}, word={"type": "string", "pattern": r"^\w+$"}
    ),
    "format": obj(day={"type": "string", "format": "date"}, id={"type": "string", "format": "uuid"}),
    "definitions": {
        "$defs": {"person": _PERSON},
        **obj(boss={"$ref": "#/$defs/person"}, aide={"$ref": "#/$defs/person"}),
    },
    "recursive": {"$defs": {"node": _NODE}, "$ref": "#/$defs/node"},
    "any_of": obj(
        value={"anyOf": [{"type": "integer"}, _TEXT, {"type": "array", "items": {"type": "null"}, "maxItems": 1}]}
    ),
    "one_of": {
        "oneOf": [obj(kind={"const": "a"}, x={"type": "integer"}), obj(kind={"const": "b"}, y={"type": "boolean"})]
    },
    "lengths": obj(
        a={"type": "string", "minLength": 3, "maxLength": 4}, b={"type": "string", "minLength": 1, "maxLength": 2}
    ),
    "any_json": {"type": "object", "properties": {"data": True}, "required": ["data"]},
}

REGEXES: Final[dict[str, str]] = {
    "empty_alternative": r"(a|)b",
    "date": r"\d{4}-\d{2}-\d{2}",
    "phone": r"\(\d{3}\) \d{3}-\d{4}",
    "words": r"[A-Z][a-z]{1,8}( [a-z]{1,8}){1,4}\.",
    "mail": r"[a-z0-9_.]{1,10}@[a-z]{1,8}\.(com|org|net)",
    "lazy": r"x+?y{2,3}?z*",
    "dot": r"<.{1,10}>",
    "unicode": r"[äöüß]{1,5}(é|日本)?",
    "anchored": r"^(yes|no|maybe)$",
    "negated": r"\"[^\"\n]{0,10}\"",
    "hex": r"0x[\dA-Fa-f]{1,8}|#[0-9a-f]{6}",
}


def _balanced(text: str) -> bool:
    depth = 0
    for char in text:
        depth += {"(": 1, ")": -1}[char]
        if depth < 0:
            return False
    return depth == 0


# Grammar, and a check of its own.
GRAMMARS: Final[dict[str, tuple[str, Callable[[str], bool]]]] = {
    "brackets": ('root ::= "(" inner ")"\ninner ::= "" | root inner', _balanced),
    "sum": (
        'root ::= term (" + " term){1,3}\nterm ::= [1-9] [0-9]? | "(" term " * " term ")"',
        lambda text: eval(text, {"__builtins__": {}}) > 0,
    ),
    "list": (
        'root ::= ("- " line "\\n"){2,3}\nline ::= [a-zA-Z ]{1,10}',
        lambda text: 2 <= text.count("\n") <= 3 and all(line.startswith("- ") for line in text.splitlines()),
    ),
    "left_recursive": ('root ::= root "b" | "a"', lambda text: re.fullmatch("ab*", text) is not None),
    "unicode": (
        'root ::= ("\\u00e9" | "日" | "\\"q\\""){1,4}',
        lambda text: re.fullmatch('(é|日|"q")+', text) is not None,
    ),
}
