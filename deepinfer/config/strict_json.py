"""The one reader of JSON files from outside (configs, headers, indexes, tokenizers): bounded and strict."""

from __future__ import annotations

import json
import math
import os
import re
import stat
from os import PathLike
from typing import Any, Final, NoReturn

from deepinfer.errors import ConfigError, DeepInferError
from deepinfer.shown_value import shown_value

MAX_CONFIG_BYTES: Final = 16 * 2**20
MAX_TABLE_BYTES: Final = 100_000_000  # headers, indexes and vocabularies; also what safetensors allows a header
MAX_DEPTH: Final = 64
_MAX_INTEGER: Final = 2**63 - 1
_MAX_DIGITS: Final = 19
_SURROGATE_ESCAPE: Final = re.compile(rb"\\u[dD][89a-fA-F]")

ErrorType = type[DeepInferError]


def read_json_object(
    path: str | PathLike[str], error: ErrorType = ConfigError, max_bytes: int = MAX_CONFIG_BYTES
) -> dict[str, Any]:
    """The JSON object in a file.

    Args:
        path: a regular file.
        error: class of what is raised.
        max_bytes: size of the file at most.

    Raises `error`, naming the file, when it cannot be read, is too large, or is not what `parse_json_object` takes.
    """
    return parse_json_object(read_bounded(path, error, max_bytes), path, error)


def read_bounded(path: str | PathLike[str], error: ErrorType, max_bytes: int) -> bytes:
    """The bytes of a regular file. Raises `error` when it cannot be read or has more than `max_bytes`."""
    where = shown_path(path)
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            is_regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            content = file.read(max_bytes + 1) if is_regular else b""
    except OSError as problem:
        raise error(f"{where}: cannot be read ({problem.strerror})") from problem
    except ValueError as problem:  # a NUL or half a character in the name
        raise error(f"{where}: no possible file name ({problem})") from problem
    if not is_regular:
        raise error(f"{where}: not a regular file")
    if len(content) > max_bytes:
        raise error(f"{where}: larger than {max_bytes:,} bytes, the most such a file may have")
    return content


def parse_json_object(content: bytes, path: str | PathLike[str], error: ErrorType = ConfigError) -> dict[str, Any]:
    """The JSON object in `content`, which stands in the file `path`.

    Strict: UTF-8, no key twice, integers of 64 bits, finite numbers, at most 64 levels, no half characters in texts.
    Raises `error` naming the file and what is wrong.
    """
    where = shown_path(path)
    try:
        values = json.loads(
            content.decode("utf-8"),
            object_pairs_hook=_unique_keys,
            parse_int=_integer,
            parse_float=_finite,
            parse_constant=_refuse_constant,
        )
        _check_depth(values)
        if _SURROGATE_ESCAPE.search(content):
            json.dumps(values, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as problem:
        raise error(f"{where}: not valid JSON (a text holds half of a character, {problem.reason})") from problem
    except UnicodeDecodeError as problem:
        raise error(f"{where}: not UTF-8 text ({problem})") from problem
    except RecursionError as problem:
        raise error(f"{where}: not valid JSON (nested deeper than {MAX_DEPTH} levels)") from problem
    except ValueError as problem:
        raise error(f"{where}: not valid JSON ({problem})") from problem
    if not isinstance(values, dict):
        raise error(f"{where}: expected a JSON object, found {type(values).__name__}")
    return values


def shown_path(path: str | PathLike[str]) -> str:
    """A path as messages show it: as it is, unless it is absurdly long or cannot be printed."""
    text = os.fspath(path)
    return text if len(text) <= 1024 and text.isprintable() else shown_value(text)


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a pipe that nobody writes to is refused, not waited for


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"key {shown_value(key)} is given twice")
            seen.add(key)
    return values


def _integer(text: str) -> int:
    if len(text) - text.startswith("-") > _MAX_DIGITS or abs(int(text)) > _MAX_INTEGER:
        raise ValueError(f"the integer {_shortened(text)} does not fit into 64 bits")
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {_shortened(text)} is too large")
    return number


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:20]}... of {len(text)} characters"


def _check_depth(values: Any) -> None:
    """Level by level, so that nothing here recurses."""
    level = [values] if isinstance(values, (dict, list)) else []
    for _ in range(MAX_DEPTH):
        level = [
            child
            for item in level
            for child in (item.values() if isinstance(item, dict) else item)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return
    raise RecursionError
