"""Walks a JSON schema: checks every keyword that counts, rewrites what has an equal form the library honours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from deepinfer.grammar import schema_types
from deepinfer.grammar.grammar_error import grammar_error
from deepinfer.grammar.regex_syntax import normalise_regex
from deepinfer.grammar.schema_types import FAMILIES, Schema

_MAX_DEPTH: Final = 64  # compiling takes time with the third power of the depth
_MAX_NODES: Final = 20_000
_CHOOSERS: Final = ("$ref", "anyOf", "oneOf", "allOf", "enum", "const")
_REFUSED: Final = (
    "not",
    "if",
    "then",
    "else",
    "contains",
    "minContains",
    "maxContains",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "$dynamicRef",
    "$recursiveRef",
    "additionalItems",
)
_MAPS: Final = ("properties", "patternProperties", "$defs", "definitions")
_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE: Final = ("items", "additionalProperties", "propertyNames")


class SchemaWalker:
    """Works on one schema, in place. Every node that a reference can reach is visited once."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._nodes: dict[int, tuple[str, Schema]] = {}

    def run(self) -> None:
        """Check and rewrite. Raises RequestError with the place, a JSON pointer, and the keyword."""
        self._visit(self._root, "#", 0)
        self._check_endless()

    def _visit(self, node: Any, path: str, depth: int) -> None:
        if isinstance(node, bool):
            return
        if not isinstance(node, dict):
            raise _error(path, f"expected a schema, found {node!r}")
        if id(node) in self._nodes:
            return
        if depth > _MAX_DEPTH or len(self._nodes) >= _MAX_NODES:
            raise _error(path, f"too large: at most {_MAX_DEPTH} levels and {_MAX_NODES} parts are taken")
        self._nodes[id(node)] = (path, node)
        for keyword in _REFUSED:
            if keyword in node:
                raise _error(path, f"{keyword} is not supported")
        self._settle_choosers(node, path)
        schema_types.infer_type(node, path)
        _check_strings(node, path)
        _check_numbers(node, path)
        _check_arrays(node, path)
        _check_objects(node, path)
        for place, child in self._children(node, path):
            self._visit(child, place, depth + 1)

    def _children(self, node: Schema, path: str) -> Iterator[tuple[str, Any]]:
        for keyword in _MAPS:
            children = node.get(keyword, {})
            if not isinstance(children, dict):
                raise _error(path, f"{keyword} is {children!r}; expected an object")
            for name, child in children.items():
                yield f"{path}/{keyword}/{name}", child
        for keyword in _LISTS:
            children = node.get(keyword, [])
            if not isinstance(children, list) or (keyword in node and not children):
                raise _error(path, f"{keyword} is {children!r}; expected a list that is not empty")
            for index, child in enumerate(children):
                yield f"{path}/{keyword}/{index}", child
        for keyword in _SINGLE:
            if keyword in node:
                yield f"{path}/{keyword}", node[keyword]
        if "$ref" in node:
            yield str(node["$ref"]), self._target(node, path)

    def _target(self, node: Schema, path: str) -> Any:
        """What a reference points at; only places of the same schema."""
        reference = node["$ref"]
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            raise _error(path, f"$ref {reference!r} is not supported: only '#' and '#/...' are")
        target: Any = self._root
        for part in reference.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(target, dict) and key in target:
                target = target[key]
            elif isinstance(target, list) and key.isdecimal() and int(key) < len(target):
                target = target[int(key)]
            else:
                raise _error(path, f"$ref {reference!r} points at nothing")
        return target

    def _settle_choosers(self, node: Schema, path: str) -> None:
        """Keywords that decide alone what is allowed: the library ignores assertions beside them."""
        present = [keyword for keyword in _CHOOSERS if keyword in node]
        if not present:
            return
        chooser = present[0]
        if len(present) > 1:
            raise _error(path, f"{chooser} together with {present[1]} is not supported")
        if chooser == "const":
            node["enum"] = [node.pop("const")]
        if chooser in ("enum", "const"):
            schema_types.filter_enum(node, path)
        if chooser == "allOf" and isinstance(node["allOf"], list) and len(node["allOf"]) > 1:
            raise _error(path, "allOf with several schemas is not supported: merge them")
        branches = node.get(chooser) if chooser in ("anyOf", "oneOf") else None
        if isinstance(branches, list):
            resolved = [self._resolved(branch, path) for branch in branches]
            if "type" in node and schema_types.branches_within(resolved, node["type"]):
                del node["type"]
            if chooser == "oneOf" and not schema_types.disjoint(resolved):
                raise _error(path, "oneOf whose schemas may overlap is not supported: use anyOf")
        for keyword in ("type", *(name for names in FAMILIES.values() for name in names)):
            if keyword in node:
                raise _error(path, f"{keyword} next to {chooser} is not supported: put it inside")

    def _resolved(self, node: Any, path: str) -> Any:
        for _ in range(_MAX_DEPTH):
            if not isinstance(node, dict) or "$ref" not in node:
                return node
            node = self._target(node, path)
        return node

    def _check_endless(self) -> None:
        """Every node must have a finite value: `{"$ref": "#"}` alone has none, a list of nodes has the empty list."""
        finite: set[int] = set()
        size = -1
        while size != len(finite):
            size = len(finite)
            finite |= {key for key, (_, node) in self._nodes.items() if key not in finite and self._ends(node, finite)}
        for key, (path, _) in self._nodes.items():
            if key not in finite:
                raise _error(path, "no finite value matches: it refers to itself without end")

    def _ends(self, node: Schema, finite: set[int]) -> bool:
        def ends(child: Any) -> bool:
            return isinstance(child, bool) or id(child) in finite

        if "$ref" in node:
            return ends(self._target(node, ""))
        if "anyOf" in node or "oneOf" in node:
            return any(ends(branch) for branch in node["anyOf" if "anyOf" in node else "oneOf"])
        if "allOf" in node:
            return all(ends(branch) for branch in node["allOf"])
        kinds = schema_types.types(node)
        if kinds is None or kinds - {"object", "array"}:
            return True
        if "object" in kinds and all(ends(node["properties"][name]) for name in node.get("required", ())):
            return True
        first = node.get("prefixItems", [])[: node.get("minItems", 0)]
        needs_items = node.get("minItems", 0) > len(first)
        return "array" in kinds and all(map(ends, first)) and (not needs_items or ends(node.get("items", True)))


def _error(path: str, message: str) -> Exception:
    return grammar_error(f"schema at {path}: {message}")


def _check_strings(node: Schema, path: str) -> None:
    given = [name for name in ("pattern", "format") if name in node]
    lengths = [name for name in ("minLength", "maxLength") if name in node]
    if len(given) > 1 or (given and lengths):
        raise _error(path, f"{given[0]} together with {(given[1:] + lengths)[0]} is not supported")
    if "pattern" in node:
        _check_pattern(node["pattern"], path)
    _check_counts(node, path, "minLength", "maxLength")


def _check_pattern(pattern: Any, path: str) -> None:
    if not isinstance(pattern, str):
        raise _error(path, f"pattern is {pattern!r}; expected a text")
    try:
        normalise_regex(pattern, inside_json=True)
    except ValueError as error:
        raise _error(path, str(error)) from error


def _check_counts(node: Schema, path: str, *names: str) -> None:
    for name in names:
        if name in node and (type(node[name]) not in (int, float) or node[name] != int(node[name]) or node[name] < 0):
            raise _error(path, f"{name} is {node[name]!r}; expected an integer >= 0")
        if name in node:
            node[name] = int(node[name])


def _check_numbers(node: Schema, path: str) -> None:
    for name in FAMILIES["number"]:
        if name in node and type(node[name]) not in (int, float):
            raise _error(path, f"{name} is {node[name]!r}; expected a number")
    step = node.get("multipleOf")
    if step is None:
        return
    if "number" in (schema_types.types(node) or {"number"}) or step != int(step) or not 1 <= step <= 1024:
        raise _error(path, f"multipleOf {step!r} is not supported: only of integers, from 1 to 1024")
    node["multipleOf"] = int(step)


def _check_arrays(node: Schema, path: str) -> None:
    if node.get("uniqueItems") not in (None, False):
        raise _error(path, "uniqueItems is not supported")
    if isinstance(node.get("items"), list):
        raise _error(path, "items with a list is not supported: use prefixItems")
    if node.get("unevaluatedItems", False) is not False:
        raise _error(path, "unevaluatedItems is not supported unless False")
    _check_counts(node, path, "minItems", "maxItems")


def _check_objects(node: Schema, path: str) -> None:
    if node.get("unevaluatedProperties", False) is not False:
        raise _error(path, "unevaluatedProperties is not supported unless False")
    _check_counts(node, path, "minProperties", "maxProperties")
    patterned = [name for name in ("patternProperties", "propertyNames") if name in node]
    others = [name for name in ("properties", "required", "additionalProperties") if node.get(name)]
    if len(patterned) > 1 or (patterned and others):
        raise _error(path, f"{patterned[0]} together with {(patterned[1:] + others)[0]} is not supported")
    for pattern in node.get("patternProperties") or ():
        _check_pattern(pattern, path)
    names = node.get("propertyNames")
    if names is not None and (not isinstance(names, dict) or set(names) - {"type", "pattern"}):
        raise _error(path, "propertyNames is not supported but for a pattern")
    is_open = bool(node.get("additionalProperties", "properties" not in node))
    if node.get("minProperties", 0) > 1 and is_open:
        raise _error(path, "minProperties above 1 is not supported where undeclared properties are allowed")
    _declare_required(node, path)


def _declare_required(node: Schema, path: str) -> None:
    """The library ignores required names that are not declared: declare them."""
    required = node.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise _error(path, f"required is {required!r}; expected a list of names")
    declared = node.get("properties", {})
    for name in required:
        if isinstance(declared, dict) and name not in declared:
            rest = node.get("additionalProperties", True)
            if rest is False:
                raise _error(path, f"required names {name!r}, which additionalProperties forbids")
            node.setdefault("properties", {})[name] = rest
            declared = node["properties"]
