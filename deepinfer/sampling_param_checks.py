"""Range checks of every SamplingParams field, as a table."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from deepinfer.errors import RequestError
from deepinfer.frozen_value import freeze
from deepinfer.shown_value import shown_value

_MAX_INT32: Final = 2**31 - 1
# What an object may have as attributes that stands for a mapping of `structured_outputs`.
STRUCTURED_KEYS: Final = (
    *("json", "json_object", "regex", "choice", "grammar", "ebnf", "schema_type", "schema"),
    *("whitespace_limit", "trigger_token_ids", "bound_token_id"),
)
_PLAIN_TYPES: Final = (str, bytes, bool, int, float, list, tuple)


def bad_value(name: str, value: object, expectation: str) -> RequestError:
    """The error for a field that has a wrong value."""
    return RequestError(
        f"{name}={shown_value(value)} is invalid: {name} must be {expectation}", code="invalid_sampling_params"
    )


def _float(name: str, value: object, expectation: str, test: Callable[[float], bool]) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise bad_value(name, value, expectation)
    try:
        number = float(value)
    except OverflowError:  # an integer or a fraction beyond the largest double
        raise bad_value(name, value, expectation) from None
    if not math.isfinite(number) or not test(number):
        raise bad_value(name, value, expectation)
    return number


def _int(name: str, value: Any, expectation: str, low: float, high: float = _MAX_INT32) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise bad_value(name, value, expectation)
    number = operator.index(value)
    if not low <= number <= high:
        raise bad_value(name, value, expectation)
    return number


def token_ids(name: str, value: Any, low: int) -> tuple[int, ...]:
    """A checked tuple of ids that are at least `low`."""
    expectation = f"a list of token ids >= {low}"
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise bad_value(name, value, expectation)
    return tuple(_int(name, item, expectation, low) for item in value)


def _strings(name: str, value: Any) -> tuple[str, ...]:
    expectation = "a non-empty string or a list of non-empty strings"
    if value is None:
        return ()
    items = (value,) if isinstance(value, str) else value
    if isinstance(items, (bytes, Mapping)) or not isinstance(items, Iterable):
        raise bad_value(name, value, expectation)
    strings = tuple(items)
    if not all(isinstance(item, str) and item for item in strings):
        raise bad_value(name, value, expectation)
    return strings


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise bad_value(name, value, "True or False")
    return value


def _num_logprobs(name: str, value: Any) -> int | None:
    if value is None or isinstance(value, bool):
        return 0 if value else None
    return _int(name, value, "None, -1 (whole vocabulary) or >= 0", -1)


def _logit_bias(name: str, value: Any) -> Mapping[int, float] | None:
    expectation = "a mapping of token id >= 0 to a bias in [-100, 100], each id once"
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise bad_value(name, value, expectation)
    result: dict[int, float] = {}
    for key, bias in value.items():
        is_text = isinstance(key, str) and key.isascii() and key.isdecimal() and len(key) <= 10
        token_id = _int(name, int(key) if is_text else key, expectation, 0)  # JSON has string keys only
        if token_id in result:
            raise bad_value(name, value, expectation)
        result[token_id] = _float(name, bias, expectation, lambda x: -100.0 <= x <= 100.0)
    return MappingProxyType(result)


def _optional_ids(name: str, value: Any, low: int) -> tuple[int, ...] | None:
    return None if value is None else token_ids(name, value, low)


def _allowed_ids(name: str, value: Any) -> tuple[int, ...] | None:
    ids = _optional_ids(name, value, 0)
    if ids == ():
        raise bad_value(name, value, "None or a list of at least one token id")
    return ids


def _seed(name: str, value: Any) -> int | None:
    if value is None:
        return None
    return _int(name, value, "None or an integer", -math.inf, math.inf) % 2**64


def _top_k(name: str, value: Any) -> int:
    number = _int(name, value, "-1 or 0 (off) or >= 1", -1)
    return number if number > 0 else -1


def _max_tokens(name: str, value: Any) -> int | None:
    return None if value is None else _int(name, value, "None or in [0, 2^31-1]", 0)


def _logprobs_mode(name: str, value: object) -> str:
    if value not in ("raw", "processed"):
        raise bad_value(name, value, '"raw" or "processed"')
    return str(value)


def _structured_outputs(name: str, value: Any) -> Any:
    """A frozen copy, not judged: a wrong grammar is its request's error, so that it fails alone."""
    if value is not None and not isinstance(value, (Mapping, *_PLAIN_TYPES)):
        found = {key: getattr(value, key, None) for key in STRUCTURED_KEYS}
        value = {key: item for key, item in found.items() if item is not None and not callable(item)}
    try:
        return freeze(value)
    except RecursionError:  # it contains itself: wrong whatever becomes of it
        return value


def _processors(name: str, value: Any) -> tuple[Callable[..., Any], ...] | None:
    if value is None:
        return None
    expectation = "None or a list of callables (generated_ids, row) -> row"
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise bad_value(name, value, expectation)
    processors = tuple(value)
    if not all(callable(item) for item in processors):
        raise bad_value(name, value, expectation)
    return processors or None


def _penalty(name: str, value: object) -> float:
    return _float(name, value, "in [-2, 2]", lambda x: -2.0 <= x <= 2.0)


def _count(name: str, value: object) -> int:
    return _int(name, value, ">= 0", 0)


# Field name -> function(name, given value) -> stored value; raises RequestError.
CHECKS: Final[Mapping[str, Callable[[str, Any], Any]]] = {
    "n": lambda name, value: _int(name, value, ">= 1", 1),
    "temperature": lambda name, value: _float(name, value, "a finite number >= 0", lambda x: x >= 0.0),
    "top_p": lambda name, value: _float(name, value, "in (0, 1]", lambda x: 0.0 < x <= 1.0),
    "top_k": _top_k,
    "min_p": lambda name, value: _float(name, value, "in [0, 1]", lambda x: 0.0 <= x <= 1.0),
    "presence_penalty": _penalty,
    "frequency_penalty": _penalty,
    "repetition_penalty": lambda name, value: _float(name, value, "in [0.01, 100]", lambda x: 0.01 <= x <= 100.0),
    "seed": _seed,
    "max_tokens": _max_tokens,
    "min_tokens": _count,
    "stop": _strings,
    "stop_token_ids": lambda name, value: _optional_ids(name, value, 0) or (),
    "ignore_eos": _flag,
    "include_stop_str_in_output": _flag,
    "skip_special_tokens": _flag,
    "logprobs": _num_logprobs,
    "prompt_logprobs": _num_logprobs,
    "logprobs_mode": _logprobs_mode,
    "logit_bias": _logit_bias,
    "allowed_token_ids": _allowed_ids,
    "bad_words": _strings,
    "first_n_token_no_eos": _count,
    "golden_token_ids": lambda name, value: _optional_ids(name, value, -1),
    "structured_outputs": _structured_outputs,
    "logits_processors": _processors,
}
