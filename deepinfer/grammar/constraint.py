"""What a request asks for in `structured_outputs` (or `so_args`), validated."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Literal

from deepinfer.core.constraint import DEFAULT_WHITESPACE_LIMIT, Constraint
from deepinfer.grammar.grammar_error import grammar_error
from deepinfer.grammar.json_schema import normalise_schema
from deepinfer.grammar.regex_syntax import normalise_regex
from deepinfer.sampling_param_checks import STRUCTURED_KEYS

_MAX_SOURCE_CHARS: Final = 2**20
_KINDS: Final = ("json", "json_object", "regex", "choice", "grammar", "ebnf")
_OPTIONS: Final = ("whitespace_limit", "trigger_token_ids", "bound_token_id")
_ALIAS_KINDS: Final = {"json": "json", "regex": "regex", "ebnf": "ebnf"}


def parse_constraint(value: Any, num_ids: int) -> Constraint:
    """Read a request's `structured_outputs`.

    Args:
        value: a mapping, or an object with such attributes, that has exactly one of ``json`` (a schema as dict or
            text), ``json_object`` (True), ``regex``, ``choice`` (a list of texts), ``grammar`` or its other name
            ``ebnf``; and perhaps ``whitespace_limit``, ``trigger_token_ids``, ``bound_token_id``. Or the original's
            form with ``schema_type`` and ``schema``.
        num_ids: ids that the tokenizer has.

    Raises:
        RequestError: code "grammar_error", with the part that is wrong.
    """
    fields = _fields(value)
    if "schema_type" in fields or "schema" in fields:
        fields = _from_alias(fields)
    unknown = sorted(set(fields) - {*_KINDS, *_OPTIONS})
    if unknown:
        expected = ", ".join((*_KINDS, *_OPTIONS))
        raise grammar_error(f"structured_outputs has the unknown key {unknown[0]!r}; known keys: {expected}")
    given = [name for name in _KINDS if name in fields]
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        raise grammar_error(f"structured_outputs needs exactly one of {', '.join(_KINDS)}; it has {found}")
    limit = fields.get("whitespace_limit", DEFAULT_WHITESPACE_LIMIT)
    if type(limit) is not int or not 0 <= limit <= 1000:
        raise grammar_error(f"whitespace_limit={limit!r}: expected an integer from 0 to 1000")
    kind, source = _source(given[0], fields[given[0]])
    if len(source) > _MAX_SOURCE_CHARS:
        raise grammar_error(f"the grammar has {len(source)} characters, at most {_MAX_SOURCE_CHARS} are taken")
    trigger, bound = _trigger(fields, num_ids)
    return Constraint(kind, source, limit if kind == "json" else 0, trigger, bound)


def _fields(value: Any) -> dict[str, Any]:
    """Keys that are set: of a mapping as they are but for None, of an object its attributes but for unset ones."""
    if isinstance(value, Mapping):
        return {str(name): item for name, item in value.items() if item is not None}
    if value is None or isinstance(value, (str, bytes, bool, int, float, list, tuple)):
        raise grammar_error(f"structured_outputs={value!r}: expected a mapping such as {{'json': schema}}")
    items = {name: getattr(value, name, None) for name in STRUCTURED_KEYS}
    return {name: item for name, item in items.items() if item is not None and not callable(item)}


def _from_alias(fields: dict[str, Any]) -> dict[str, Any]:
    """`so_args` of the original in our names (spec/decode.md 5.1)."""
    for name in ("serialized", "bound_token_ids"):
        if name in fields:
            raise grammar_error(f"so_args has {name!r}, which is not taken; use schema_type, schema, bound_token_id")
    kind, schema = fields.pop("schema_type", None), fields.pop("schema", None)
    if kind not in _ALIAS_KINDS:
        raise grammar_error(f"schema_type={kind!r}: expected one of {', '.join(_ALIAS_KINDS)}")
    if schema is None:
        raise grammar_error("so_args has a schema_type but no schema")
    if _ALIAS_KINDS[kind] in fields:
        raise grammar_error(f"structured_outputs has both schema_type and {kind}; give one of them")
    return {**fields, _ALIAS_KINDS[kind]: schema}


def _source(name: str, value: Any) -> tuple[Literal["json", "regex", "ebnf"], str]:
    """Kind and text of the grammar; "" and False are as wrong as any other value that says nothing."""
    if name == "json":
        return "json", normalise_schema(value)
    if name == "json_object":
        if value is not True:
            raise grammar_error(f"json_object={value!r}: only True says something; leave it out otherwise")
        return "json", '{"type": "object"}'
    if name == "choice":
        return "ebnf", _choice_grammar(value)
    if not isinstance(value, str) or not value:
        raise grammar_error(f"{name}={value!r}: expected a text that is not empty")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise grammar_error(f"{name} is no valid Unicode text: {error}") from error
    return ("regex", normalise_regex(value)) if name == "regex" else ("ebnf", value)


def _choice_grammar(value: Any) -> str:
    if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__iter__"):
        raise grammar_error(f"choice={value!r}: expected a list of texts")
    choices = list(dict.fromkeys(value))
    if not choices or not all(isinstance(item, str) and item for item in choices):
        raise grammar_error(f"choice={choices!r}: expected at least one text, none of them empty")
    try:
        for item in choices:
            item.encode("utf-8")
    except UnicodeEncodeError as error:
        raise grammar_error(f"choice holds no valid Unicode text: {error}") from error
    return "root ::= " + " | ".join(json.dumps(item, ensure_ascii=False) for item in choices)


def _trigger(fields: dict[str, Any], num_ids: int) -> tuple[tuple[int, ...], int | None]:
    given, bound = fields.get("trigger_token_ids", ()), fields.get("bound_token_id")
    if isinstance(given, (str, bytes, Mapping)) or not hasattr(given, "__iter__"):
        raise grammar_error(f"trigger_token_ids={given!r}: expected a list of token ids")
    trigger = tuple(given)
    for name, token_id in [*(("trigger_token_ids", item) for item in trigger), ("bound_token_id", bound)]:
        if token_id is not None and (type(token_id) is not int or not 0 <= token_id < num_ids):
            raise grammar_error(f"{name} has {token_id!r}: expected token ids from 0 to {num_ids - 1}")
    if any(item is None for item in trigger):
        raise grammar_error(f"trigger_token_ids={list(trigger)!r}: expected token ids")
    if bound is not None and not trigger:
        raise grammar_error(f"bound_token_id={bound} needs trigger_token_ids")
    return trigger, bound
