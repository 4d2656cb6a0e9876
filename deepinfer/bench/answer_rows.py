"""Questions with known answers, and how many of them a model answers exactly."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from deepinfer.config.strict_json import MAX_TABLE_BYTES, read_bounded, shown_path
from deepinfer.errors import ConfigError
from deepinfer.llm import LLM
from deepinfer.sampling_params import SamplingParams

_FIELDS: Final = ("id", "task", "prompt", "answer")


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """A question and its answer.

    Attributes:
        id: of the row, any text.
        task: rows of one kind have the same.
        prompt: the whole prompt with its markers.
        answer: what has to come, up to the end of the text.
    """

    id: str
    task: str
    prompt: str
    answer: str


@dataclass(frozen=True, slots=True)
class AnswerResult:
    """What a model answered.

    Attributes:
        row: the question.
        text: generated text; of a failed request the error.
        is_exact: whether it is the answer, and the model ended there by itself.
    """

    row: AnswerRow
    text: str
    is_exact: bool

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return {**asdict(self.row), "text": self.text, "is_exact": self.is_exact}


def read_answer_rows(path: Path | None) -> list[AnswerRow]:
    """Rows of a JSON-lines file with "id", "task", "prompt" and "answer"; None: those of the bundled model.

    ConfigError names the line that is wrong.
    """
    if path is None:
        text = (files("deepinfer") / "data" / "mini" / "eval.jsonl").read_text("utf-8")
        return [_row(line, "eval.jsonl", i) for i, line in enumerate(text.split("\n"), 1) if line.strip()]
    try:
        text = read_bounded(path, ConfigError, MAX_TABLE_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{shown_path(path)}: not UTF-8 text ({error})") from error
    rows = [_row(line, shown_path(path), i) for i, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not rows:
        raise ConfigError(f"{shown_path(path)} holds no row; expected JSON lines with {', '.join(_FIELDS)}")
    return rows


def _row(line: str, name: str, number: int) -> AnswerRow:
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{name}, line {number}: no JSON ({error})") from error
    found: list[Any] = [value.get(field) if isinstance(value, dict) else None for field in _FIELDS]
    if not all(isinstance(item, str) for item in found):
        raise ConfigError(f"{name}, line {number}: expected an object with the texts {', '.join(_FIELDS)}")
    return AnswerRow(*found)


def first_of_each_task(rows: Sequence[AnswerRow], limit: int | None) -> list[AnswerRow]:
    """At most `limit` rows of each task, in their order; None: all."""
    taken: Counter[str] = Counter()
    kept = []
    for row in rows:
        taken[row.task] += 1
        if limit is None or taken[row.task] <= limit:
            kept.append(row)
    return kept


def answer_rows(llm: LLM, rows: Sequence[AnswerRow], max_tokens: int, use_tqdm: bool = False) -> list[AnswerResult]:
    """Greedy answers of at most `max_tokens` tokens, in the order of the rows."""
    params = SamplingParams(temperature=0.0, max_tokens=max_tokens)
    results = []
    for row, output in zip(rows, llm.generate([row.prompt for row in rows], params, use_tqdm=use_tqdm), strict=True):
        if output.error is not None:
            results.append(AnswerResult(row, f"error ({output.error.code}): {output.error.message}", False))
            continue
        completion = output.outputs[0]
        is_exact = completion.text == row.answer and completion.finish_reason == "stop"
        results.append(AnswerResult(row, completion.text, is_exact))
    return results


def task_counts(results: Sequence[AnswerResult]) -> dict[str, tuple[int, int]]:
    """By task, in the order of the rows: exact answers, and rows."""
    counts: dict[str, tuple[int, int]] = {}
    for result in results:
        exact, total = counts.get(result.row.task, (0, 0))
        counts[result.row.task] = (exact + result.is_exact, total + 1)
    return counts
