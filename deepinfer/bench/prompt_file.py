"""Prompts for measurements: from a file, or those that come with the bundled model."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import numpy as np

from deepinfer.config.strict_json import MAX_TABLE_BYTES, read_bounded, shown_path
from deepinfer.errors import ConfigError
from deepinfer.text.tokenizer import Tokenizer

PASSAGE_TOKENS: Final = 32
_ROWS_PER_TASK: Final = 19  # evaluation rows from one that is taken to the next: 20 of all tasks

Prompt = str | list[int]


def bundled_prompts() -> dict[str, list[str]]:
    """Prompt sets of the bundled model: "chat", "text" and "eval" (its evaluation rows)."""
    directory = files("deepinfer") / "data" / "mini"
    sets: dict[str, list[str]] = json.loads((directory / "prompts.json").read_text("utf-8"))
    rows = (directory / "eval.jsonl").read_text("utf-8").splitlines()
    return {**sets, "eval": [json.loads(row)["prompt"] for row in rows]}


def read_prompts(path: Path, tokenizer: Tokenizer, limit: int) -> list[Prompt]:
    """At most `limit` prompts, taken evenly from the whole file.

    A .jsonl file has a prompt a line: a string, a list of ids, or an object with "prompt". Anything else is a text; its
    passages of 32 tokens are the prompts, each behind BOS if the tokenizer has one.
    """
    try:
        text = read_bounded(path, ConfigError, MAX_TABLE_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{shown_path(path)}: not UTF-8 text ({error})") from error
    if path.suffix == ".jsonl":
        lines = text.split("\n")  # not splitlines: JSON strings may hold other line separators as they are
        prompts = [_prompt(line, path, number) for number, line in enumerate(lines, 1) if line.strip()]
    else:
        prompts = _passages(text, tokenizer)
    if not prompts:
        expectation = f"expected a text of {PASSAGE_TOKENS} tokens or JSON lines"
        raise ConfigError(f"{shown_path(path)} holds no prompt; {expectation}")
    step = max(1.0, len(prompts) / limit)
    return [prompts[int(i * step)] for i in range(min(limit, len(prompts)))]


def _prompt(line: str, path: Path, number: int) -> Prompt:
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{shown_path(path)}, line {number}: no JSON ({error})") from error
    prompt = value.get("prompt") if isinstance(value, dict) else value
    if not isinstance(prompt, (str, list)) or not prompt:
        expectation = 'expected a text, a list of ids or {"prompt": ...}'
        raise ConfigError(f"{shown_path(path)}, line {number}: {expectation}")
    return prompt


def _passages(text: str, tokenizer: Tokenizer) -> list[Prompt]:
    bos = [tokenizer.bos_token_id] if tokenizer.bos_token_id is not None else []
    ids = [token for token in tokenizer.encode(text) if [token] != bos]
    starts = range(0, len(ids) - PASSAGE_TOKENS + 1, PASSAGE_TOKENS)
    return [[*bos, *ids[start : start + PASSAGE_TOKENS]] for start in starts]


def random_prompts(tokenizer: Tokenizer, num_prompts: int, length: int) -> list[Prompt]:
    """Prompts of `length` random ids, special tokens excepted; always the same ones, and all different."""
    pieces = tokenizer.text_pieces(tokenizer.size)
    usable = [token for token, piece in enumerate(pieces) if piece]
    random = np.random.default_rng(0)
    return [[usable[i] for i in random.integers(0, len(usable), length)] for _ in range(num_prompts)]


def mixed_prompts(num_prompts: int) -> list[Prompt]:
    """Bundled prompts of all sets, as often as needed: chat, text, and one evaluation row of each task."""
    sets = bundled_prompts()
    prompts = [*sets["chat"], *sets["text"], *sets["eval"][::_ROWS_PER_TASK]]
    return [prompts[i % len(prompts)] for i in range(num_prompts)]
