"""The types that a JSON schema node allows, and what follows from them."""

from __future__ import annotations

from itertools import combinations
from typing import Any, Final, TypeAlias

from deepinfer.grammar.grammar_error import grammar_error

Schema: TypeAlias = dict[str, Any]

# Assertions that look at values of one type only.
FAMILIES: Final[dict[str, tuple[str, ...]]] = {
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "string": ("minLength", "maxLength", "pattern"),
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "unevaluatedItems"),
    "object": (
        "properties",
        "required",
        "additionalProperties",
        "patternProperties",
        "propertyNames",
        "minProperties",
        "maxProperties",
        "unevaluatedProperties",
    ),
}


def types(node: Any) -> set[str] | None:
    """Names of the allowed types; None when any, or when it cannot be told."""
    if not isinstance(node, dict):
        return None
    if "enum" in node and isinstance(node["enum"], list):
        return {_type_of(value) for value in node["enum"]}
    if "const" in node:
        return {_type_of(node["const"])}
    given = node.get("type")
    names = [given] if isinstance(given, str) else given
    return set(names) if isinstance(names, list) and all(isinstance(name, str) for name in names) else None


def infer_type(node: Schema, path: str) -> None:
    """Give a node without type the one its assertions are about; the library would ignore them otherwise."""
    if "type" in node:
        return
    families = [family for family, names in FAMILIES.items() if any(name in node for name in names)]
    if len(families) > 1:
        raise grammar_error(f"schema at {path}: keywords about {' and '.join(families)} without a type; add the type")
    if families:
        node["type"] = families[0]


def filter_enum(node: Schema, path: str) -> None:
    """Drop the values that a `type` beside them forbids, then the type."""
    values = node["enum"]
    if not isinstance(values, list) or not values:
        raise grammar_error(f"schema at {path}: enum is {values!r}; expected a list that is not empty")
    allowed = types({"type": node["type"]}) if "type" in node else None
    if allowed is None:
        return
    kept = [value for value in values if _fits(value, allowed)]
    if not kept:
        raise grammar_error(f"schema at {path}: no value of {values!r} has the type {node['type']!r}")
    node["enum"] = kept
    del node["type"]


def branches_within(branches: list[Any], given: Any) -> bool:
    """Whether every branch says a type of its own that is among `given`."""
    allowed = types({"type": given}) or set()
    if "number" in allowed:
        allowed.add("integer")
    return all((kinds := types(branch)) is not None and kinds <= allowed for branch in branches)


def disjoint(branches: list[Any]) -> bool:
    """Whether no value can match two branches: other types, other constants, or a property that tells them apart."""
    return all(_tells_apart(first, second) for first, second in combinations(branches, 2))


def _tells_apart(first: Any, second: Any) -> bool:
    kinds, others = types(first), types(second)
    if kinds is None or others is None:
        return False
    if not _widened(kinds) & _widened(others):
        return True
    values, other_values = _constants(first), _constants(second)
    if values is not None and other_values is not None:
        return not any(_same(value, other) for value in values for other in other_values)
    if kinds != {"object"} or others != {"object"}:
        return False
    return any(_property_differs(first, second, name) for name in first.get("properties", {}))


def _property_differs(first: Schema, second: Schema, name: str) -> bool:
    if name not in first.get("required", ()) or name not in second.get("required", ()):
        return False
    values = _constants(first["properties"][name])
    others = _constants(second.get("properties", {}).get(name))
    if values is None or others is None:
        return False
    return not any(_same(value, other) for value in values for other in others)


def _constants(node: Any) -> list[Any] | None:
    if not isinstance(node, dict):
        return None
    if "const" in node:
        return [node["const"]]
    return node["enum"] if isinstance(node.get("enum"), list) else None


def _same(first: Any, second: Any) -> bool:
    """JSON equality: 1 equals 1.0, but True is no number."""
    return first == second and isinstance(first, bool) == isinstance(second, bool)


def _widened(kinds: set[str]) -> set[str]:
    return {"number" if kind == "integer" else kind for kind in kinds}


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "integer" if value == int(value) else "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _fits(value: Any, allowed: set[str]) -> bool:
    kind = _type_of(value)
    return kind in allowed or (kind == "integer" and "number" in allowed)
