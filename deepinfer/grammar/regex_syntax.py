"""Regular expressions: what the grammar library would misread is refused by name before it gets there."""

from __future__ import annotations

import re
from typing import Final

from deepinfer.grammar.grammar_error import grammar_error

_GROUPS: Final = {
    "(?=": "lookahead",
    "(?!": "lookahead",
    "(?<=": "lookbehind",
    "(?<!": "lookbehind",
    "(?P=": "backreference",
    "(?P<": "named group",
    "(?<": "named group",
    "(?>": "atomic group",
    "(?#": "comment",
    "(?(": "conditional",
}
_ESCAPES: Final = {
    "b": "word boundary",
    "B": "word boundary",
    "A": "anchor \\A",
    "Z": "anchor \\Z",
    "z": "anchor \\z",
    "G": "anchor \\G",
    "k": "backreference",
    "g": "backreference",
    "p": "Unicode class",
    "P": "Unicode class",
    "K": "\\K",
    "R": "\\R",
    "X": "\\X",
    "N": "\\N",
    "Q": "quoting",
    "E": "quoting",
}
_KNOWN_LETTERS: Final = frozenset("dDwWsSnrtfvxuc")
_NEEDS_JSON_ESCAPE: Final = frozenset('"\\' + "".join(map(chr, range(32))))
_CONTROL_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "0": "\0"}
_TOKEN: Final = re.compile(
    r"\\x[0-9a-fA-F]{2}|\\u\{[0-9a-fA-F]+\}|\\u[0-9a-fA-F]{4}|\\.|\(\?[A-Za-z-]*[:)]|\(\?[#>(]|\(\?P?<?[=!<]?|.",
    re.DOTALL,
)


def normalise_regex(pattern: str, *, inside_json: bool = False) -> str:
    """The pattern as the library is to see it; it matches the whole text.

    ``.`` outside classes becomes ``[^\\n]``, as in Python. Classes such as ``\\d`` mean ASCII.

    Args:
        pattern: the expression.
        inside_json: it is a schema's ``pattern``, so a match may hold no character that JSON escapes.

    Raises:
        RequestError: "grammar_error" with the name of an unsupported part, such as lookahead.
    """
    tokens = _TOKEN.findall(pattern)
    _check_anchors(pattern, tokens)
    result, in_class, negated = [], False, False
    for place, token in enumerate(tokens):
        if token[0] == "\\" and len(token) > 1:
            _check_escape(pattern, token, in_class)
        if inside_json and not (in_class and negated) and _character(token) in _NEEDS_JSON_ESCAPE:
            raise _unsupported(pattern, f"the character {_character(token)!r}, which JSON escapes,")
        if in_class:
            in_class = token != "]"
        elif token == "[":
            in_class, negated = True, tokens[place + 1 : place + 2] == ["^"]
        elif token[:2] == "(?" and token != "(?:":
            raise _unsupported(pattern, _GROUPS.get(_group_head(token), "inline flag"))
        elif token == "." and not inside_json:
            token = r"[^\n]"
        result.append(token)
    return "".join(result)


def _unsupported(pattern: str, name: str) -> Exception:
    return grammar_error(f"regex {pattern!r}: {name} is not supported")


def _group_head(token: str) -> str:
    return next((head for head in sorted(_GROUPS, key=len, reverse=True) if token.startswith(head)), token)


def _check_escape(pattern: str, token: str, in_class: bool) -> None:
    letter = token[1]
    if in_class and letter == "b":
        return
    if letter in "123456789":
        raise _unsupported(pattern, "backreference")
    if letter in _ESCAPES:
        raise _unsupported(pattern, _ESCAPES[letter])
    if letter.isascii() and letter.isalpha() and letter not in _KNOWN_LETTERS:
        raise _unsupported(pattern, f"escape \\{letter}")
    if letter in "xu" and len(token) == 2:
        raise _unsupported(pattern, f"escape \\{letter} without hexadecimal digits")


def _character(token: str) -> str:
    """The one character that a token stands for, "" for anything else."""
    if token[0] != "\\":
        return token if len(token) == 1 else ""
    if token[1] in "xu" and len(token) > 2:
        return chr(min(int(token[2:].strip("{}"), 16), 0x10FFFF))
    if token[1] == "c":
        return "\x01"
    return _CONTROL_ESCAPES.get(token[1], token[1] if not token[1].isalnum() else "")


def _check_anchors(pattern: str, tokens: list[str]) -> None:
    """``^`` and ``$`` may stand at the ends of the pattern or of one of its alternatives, where they say nothing."""
    depth, in_class = 0, False
    for place, token in enumerate(tokens):
        if in_class:
            in_class = token != "]"
        elif token == "[":
            in_class = True
        elif token[0] == "(":
            depth += 1
        elif token == ")":
            depth -= 1
        elif token in "^$" and (depth or _is_inside(tokens, place, token)):
            raise grammar_error(f"regex {pattern!r}: {token} is only supported at the ends of the whole expression")


def _is_inside(tokens: list[str], place: int, token: str) -> bool:
    if token == "^":
        return place > 0 and tokens[place - 1] != "|"
    return place + 1 < len(tokens) and tokens[place + 1] != "|"
