"""JSON schemas: made fit for the grammar library, and refused by name where the library would ignore a keyword."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from deepinfer.grammar.grammar_error import grammar_error
from deepinfer.grammar.schema_walker import SchemaWalker


def normalise_schema(value: Any) -> str:
    """A schema as the text that is compiled.

    Whatever is accepted here validates afterwards: a keyword that the library cannot honour is an error, never
    ignored. Objects are closed (no undeclared property) unless ``additionalProperties`` opens them.

    Args:
        value: mapping, JSON text, True, or a class with ``model_json_schema()``.

    Raises:
        RequestError: "grammar_error" with the place in the schema.
    """
    schema = _parsed(value)
    if schema is True:
        return "true"
    if schema is False or schema == {}:
        raise grammar_error(f"json={value!r}: a schema that says nothing; for any object use json_object=True")
    if not isinstance(schema, dict):
        raise grammar_error(f"json={value!r}: expected a JSON schema, that is an object")
    SchemaWalker(schema).run()
    return json.dumps(schema, ensure_ascii=False)


def _parsed(value: Any) -> Any:
    if hasattr(value, "model_json_schema"):
        value = value.model_json_schema()
    if not isinstance(value, (str, Mapping, bool)) or not value:
        raise grammar_error(f"json={value!r}: expected a JSON schema as dict or text")
    try:
        text = value if isinstance(value, str) else json.dumps(value, allow_nan=False, default=_mapping_as_dict)
        schema = json.loads(text, parse_constant=_refuse_constant)
        json.dumps(schema, ensure_ascii=False).encode("utf-8")
    except RecursionError:
        raise grammar_error("json: the schema is nested too deeply or contains itself") from None
    except (ValueError, TypeError) as error:
        raise grammar_error(f"json: the schema is no valid JSON: {error}") from error
    return schema


def _mapping_as_dict(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
