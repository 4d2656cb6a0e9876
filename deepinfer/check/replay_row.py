"""Rows to replay: prompts, and what was generated for them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, TypeVar

from deepinfer.config.strict_json import MAX_TABLE_BYTES, read_bounded, shown_path
from deepinfer.errors import ConfigError
from deepinfer.sampling_params import SamplingParams
from deepinfer.text.tokenizer import Tokenizer

Item = TypeVar("Item")

_EXPECTED: Final = (
    'expected {"prompt": text} or {"prompt_token_ids": ids}, with "token_ids", "answer", or the "outputs" or '
    '"completions" of a result; without any of these the row is generated first'
)


@dataclass(frozen=True, slots=True)
class ReplayRow:
    """One row of a file.

    Attributes:
        prompt: text or ids.
        token_ids: what was generated; None: to be generated.
        params: by which to generate it; None: greedily.
    """

    prompt: str | list[int]
    token_ids: tuple[int, ...] | None
    params: SamplingParams | None = None


def shared_evenly(items: Sequence[Item], share: float) -> list[Item]:
    """So many of the items, evenly from all of them; one at least, if there is any."""
    num_taken = min(len(items), max(1, round(len(items) * share)))
    return [items[i * len(items) // num_taken] for i in range(num_taken)]


def read_replay_rows(path: Path | None, tokenizer: Tokenizer, share: float) -> list[ReplayRow]:
    """A share of a file's rows, taken evenly from all of it, one at least.

    Args:
        path: JSON lines: prompts, evaluation rows, or what ``deepinfer generate --json`` prints. None: the bundled
            evaluation rows.
        tokenizer: splits answers that are texts.
        share: of the rows, over 0 and at most 1.

    ConfigError names the line that is wrong.
    """
    if path is None:
        name, text = "eval.jsonl", (files("deepinfer") / "data" / "mini" / "eval.jsonl").read_text("utf-8")
    else:
        name = shown_path(path)
        try:
            text = read_bounded(path, ConfigError, MAX_TABLE_BYTES).decode("utf-8")
        except UnicodeDecodeError as error:
            raise ConfigError(f"{name}: not UTF-8 text ({error})") from error
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise ConfigError(f"{name} holds no row; {_EXPECTED}")
    return [_row(line, f"{name}, line {number}", tokenizer) for number, line in shared_evenly(lines, share)]


def _row(line: str, place: str, tokenizer: Tokenizer) -> ReplayRow:
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{place}: no JSON ({error})") from error
    prompt = value.get("prompt_token_ids", value.get("prompt")) if isinstance(value, Mapping) else value
    if not isinstance(prompt, (str, list)) or not prompt:
        raise ConfigError(f"{place}: {_EXPECTED}")
    if not isinstance(value, Mapping):
        return ReplayRow(prompt, None)
    ids = _generated(value)
    if ids is None and isinstance(value.get("answer"), str):
        ids = tokenizer.encode(value["answer"])
    if ids is not None and not (isinstance(ids, list) and all(type(item) is int and item >= 0 for item in ids)):
        raise ConfigError(f"{place}: token ids must be a list of integers from 0")
    return ReplayRow(prompt, tuple(ids) if ids else None)


def _generated(value: Mapping[str, Any]) -> Any:
    """The ids of the first completion that a row tells of."""
    if "token_ids" in value:
        return value["token_ids"]
    for name in ("outputs", "completions"):
        found = value.get(name)
        if isinstance(found, list) and found and isinstance(found[0], Mapping):
            return found[0].get("token_ids")
    return None
